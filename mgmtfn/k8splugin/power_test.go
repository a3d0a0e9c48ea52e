package k8splugin_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/fakenode"
)

// nextBoot has a server run after the next boot of the machine.
func nextBoot(c *k8splugin.Config) { c.Boot = "the next one" }

// cutPower removes what a machine loses with its power: links, and the files that need not have reached the disk.
func cutPower(t *testing.T, node *fakenode.Node) {
	t.Helper()
	for _, p := range node.Switch.Ports() {
		if out, err := exec.Command("ip", "link", "del", p.HostLink).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, pattern := range []string{filepath.Join(node.StateDir(), "*.json"), filepath.Join(node.Dir, "port-*")} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAnAddThatPowerIsCutFromLeavesNothing(t *testing.T) {
	for _, point := range []string{
		"add: begin", fakenode.PreparePort + " done", fakenode.CreateEndpoint, fakenode.CreateEndpoint + " done",
		"add: flows", fakenode.Attach + " done", "add: bring up", "add: checkpoint", lastPointOfAdd,
	} {
		t.Run(point, func(t *testing.T) {
			node := fakenode.NewNode(t)
			add := request(cniwire.Add, "pod", fakenode.NewNamespace(t), "")
			child := crashingServer(t, node, point)
			if answer, err := node.Do(add); err == nil {
				t.Fatalf("ADD answered %s", answer)
			}
			awaitDeath(t, child)
			cutPower(t, node)
			node.Start(t, nextBoot)
			node.NothingLeft(t)
			do(t, node, add)
			do(t, node, request(cniwire.Check, "pod", add.Netns, ""))
			do(t, node, request(cniwire.Del, "pod", "", ""))
			node.NothingLeft(t)
		})
	}
}

func TestOnlyWhatWasAttachedByThisMachineIsDeleted(t *testing.T) {
	node := fakenode.NewNode(t)
	stop := node.Start(t)
	do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
	stop()
	cutPower(t, node)
	var others []string
	var again string
	for name, boot := range map[string]string{"byhand": "", "twin": "of another machine with this label", "now": "the next one"} {
		ep := mastercfg.CfgEndpointState{ID: "default-net.default-" + name, NetID: "default-net.default",
			EndpointID: name, HomingHost: fakenode.HostLabel, Boot: boot}
		if err := node.Cluster.Place(ep); err != nil {
			t.Fatal(err)
		}
		if name == "now" { // a restored store has it again
			again = ep.ID
			continue
		}
		others = append(others, ep.ID)
	}
	slices.Sort(others)
	fresh, err := fakenode.OpenNode(node.Dir) // with no memory of former holders
	if err != nil {
		t.Fatal(err)
	}
	stop = fresh.Start(t, nextBoot)
	fakenode.Eventually(t, "the endpoints of this boot and the former one are deleted", func() bool { return !knows(t, node, podEndpoint) && !knows(t, node, again) })
	stop() // after finishing work in progress
	if left, err := node.Cluster.Endpoints(); err != nil || !slices.Equal(left, others) {
		t.Errorf("endpoints %q (%v), want %q", left, err, others)
	}
}

// For an endpoint that existed before, or of an older master, the store does not record in which boot it was
// attached: the checkpoint has to.
func TestACheckpointReachesTheDiskIfTheStoreDoesNotSayAsMuch(t *testing.T) {
	for _, known := range []bool{true, false} {
		node := fakenode.NewNode(t)
		node.Start(t)
		do(t, node, request(cniwire.Add, "first", fakenode.NewNamespace(t), "")) // the master does write boots down
		if !known {
			ep := mastercfg.CfgEndpointState{ID: podEndpoint, NetID: "default-net.default", EndpointID: "pod",
				IPAddress: "10.1.0.3", MacAddress: "02:02:0a:01:00:03", HomingHost: fakenode.HostLabel}
			if err := node.Cluster.Place(ep); err != nil {
				t.Fatal(err)
			}
		}
		node.Cluster.Watch(func(call string) { // a missing file stands for one that is not on the disk
			if call == fakenode.CreateEndpoint+" done" {
				if err := os.Remove(filepath.Join(node.StateDir(), "pod@eth0.json")); err != nil {
					t.Error(err)
				}
			}
		})
		_, err := node.Do(request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
		if (err == nil) != known {
			t.Errorf("the store says the boot: %v; ADD without its checkpoint: %v", known, err)
		}
	}
}

// A master of an earlier release records no boot: if the power fails as soon as it has the endpoint, only the
// checkpoint names it.
func TestUntilAMasterHasToldABootNoEndpointIsAskedForWithoutCheckpoint(t *testing.T) {
	node := fakenode.NewNode(t)
	logger, _ := logtest.NewNullLogger()
	logger.SetLevel(logrus.DebugLevel)
	var loses atomic.Bool // the checkpoint: a missing file stands for one that is not on the disk
	logger.AddHook(at{"add: begin", func() {
		if !loses.Load() {
			return
		}
		if err := os.RemoveAll(filepath.Join(node.StateDir(), "pod@eth0.json")); err != nil {
			t.Error(err)
		}
	}})
	node.Start(t, func(c *k8splugin.Config) { c.Log = logrus.NewEntry(logger) })
	var asked atomic.Bool
	node.Cluster.Watch(func(call string) {
		if call == fakenode.CreateEndpoint {
			asked.Store(true)
		}
	})
	loses.Store(true)
	if _, err := node.Do(request(cniwire.Add, "pod", fakenode.NewNamespace(t), "")); err == nil || asked.Load() {
		t.Errorf("ADD without its checkpoint: %v; the endpoint was asked for: %v", err, asked.Load())
	}
	loses.Store(false)
	do(t, node, request(cniwire.Add, "other", fakenode.NewNamespace(t), ""))
	loses.Store(true)
	do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), "")) // the store says enough
}

// at calls a function when something is logged.
type at struct {
	message string
	do      func()
}

func (a at) Levels() []logrus.Level { return logrus.AllLevels }

func (a at) Fire(e *logrus.Entry) error {
	if e.Message == a.message {
		a.do()
	}
	return nil
}
