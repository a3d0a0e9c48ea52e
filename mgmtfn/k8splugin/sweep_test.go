package k8splugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/labels"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// kubernetes configures a server of Kubernetes that places pods by the call.
func kubernetes(c *k8splugin.Config) {
	c.Mode, c.Labels = k8splugin.Kubernetes, labels.Call{}
	c.Limits.Beat, c.Limits.Sweep = 10*time.Millisecond, 10*time.Millisecond
}

func TestAContainerWhoseNamespaceIsGoneIsUndone(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t, kubernetes)
	gone, stays := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "stays", stays, ""))
	do(t, node, request(cniwire.Add, "gone", gone, ""))
	fakenode.EndNamespace(t, gone)
	fakenode.Eventually(t, "the endpoint is given back", func() bool {
		endpoints, err := node.Cluster.Endpoints()
		return err == nil && len(endpoints) == 1 && endpoints[0] == "default-net.default-stays"
	})
	fakenode.InNamespace(t, stays, "ping", "-c1", "-W30", "10.1.0.1")
	do(t, node, request(cniwire.Del, "stays", stays, ""))
	do(t, node, request(cniwire.Del, "gone", "", ""))
	node.NothingLeft(t)
}

// A container of the same name may have come since the other one was missed: it is not the one that was gone.
func TestOnlyTheContainerThatWasMissedIsUndone(t *testing.T) {
	node := fakenode.NewNode(t)
	server, err := k8splugin.New(node.Config())
	if err != nil {
		t.Fatal(err)
	}
	node.Run(t, server)
	netns := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "pod", netns, ""))
	known, _, err := attachment.Open(node.StateDir())
	if err != nil {
		t.Fatal(err)
	}
	former := known.Select(func(*attachment.Record) bool { return true })[0]
	former.Since = former.Since.Add(-time.Minute)
	k8splugin.UndoMissed(server, t.Context(), former, "a namespace was gone")
	fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "10.1.0.1")
	do(t, node, request(cniwire.Check, "pod", netns, ""))

	fakenode.EndNamespace(t, netns)
	fakenode.Eventually(t, "the link is gone with its namespace", func() bool { return len(node.Switch.Ports()) == 0 })
	missed := k8splugin.SweepOnce(server, t.Context(), map[cniwire.Attachment]time.Time{former.Attachment(): former.Since})
	if !knows(t, node, podEndpoint) {
		t.Error("it is undone when it is missed for the first time, as the former one was missed before")
	}
	k8splugin.SweepOnce(server, t.Context(), missed)
	node.NothingLeft(t)
}

// Some container runtimes name a namespace by a process in it, and send no DEL when that process has ended on its
// own.
func TestAContainerWhoseProcessHasTheNamespaceIsUndoneWhenItEnds(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t, kubernetes)
	begin := func() (netns string, end func()) {
		process := exec.Command("sleep", "600")
		process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		ended, err := testkit.Start(process)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("/proc/%d/ns/net", process.Process.Pid), func() {
			_ = process.Process.Kill() // fails only if it has ended
			<-ended
		}
	}
	stays, endStays := begin()
	defer endStays()
	gone, endGone := begin()
	do(t, node, request(cniwire.Add, "stays", stays, ""))
	do(t, node, request(cniwire.Add, "gone", gone, ""))
	endGone()
	fakenode.Eventually(t, "the endpoint is given back", func() bool {
		endpoints, err := node.Cluster.Endpoints()
		return err == nil && len(endpoints) == 1 && endpoints[0] == "default-net.default-stays"
	})
	do(t, node, request(cniwire.Del, "stays", stays, ""))
	do(t, node, request(cniwire.Del, "gone", "", ""))
	node.NothingLeft(t)
}

// A process id under which this process never saw the container's belongs to another pid namespace: that it is
// unused here proves nothing.
func TestOnlyAProcessThatWasSeenEnds(t *testing.T) {
	for _, seen := range []bool{false, true} {
		r := attachment.Record{HostLink: "none", Netns: "/proc/4194305/ns/net", NetnsID: "4:1", NetnsSeen: seen} // more than a process can have
		if gone, err := k8splugin.IsGone(&r); gone != seen || err != nil {
			t.Errorf("seen %v: gone %v, %v", seen, gone, err)
		}
	}
}

// Root in a pod may delete the pod's interface, and other software may rename the switch's end: the pod lives, and
// no other gets its address.
func TestAContainerThatHasLostItsLinkKeepsItsAddress(t *testing.T) {
	for what, lose := range map[string]func(t *testing.T, node *fakenode.Node, netns string){
		"deleted inside": func(t *testing.T, _ *fakenode.Node, netns string) {
			fakenode.InNamespace(t, netns, "ip", "link", "del", "eth0")
		},
		"renamed outside": func(t *testing.T, node *fakenode.Node, _ string) {
			link := node.Switch.Ports()[0].HostLink
			for _, change := range [][]string{{"down"}, {"name", "elsewhere"}} {
				if out, err := exec.Command("ip", append([]string{"link", "set", link}, change...)...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "elsewhere").Run() }) // with its namespace, by and by
		},
	} {
		t.Run(what, func(t *testing.T) {
			node := fakenode.NewNode(t)
			server, err := k8splugin.New(node.Config())
			if err != nil {
				t.Fatal(err)
			}
			node.Run(t, server)
			netns := fakenode.NewNamespace(t)
			do(t, node, request(cniwire.Add, "pod", netns, ""))
			lose(t, node, netns)
			k8splugin.SweepOnce(server, t.Context(), k8splugin.SweepOnce(server, t.Context(), nil))
			if !knows(t, node, podEndpoint) {
				t.Fatal("the address of a container that lives is free")
			}
			if user, err := server.User(podEndpoint); user != "pod@eth0" || err != nil {
				t.Errorf("user %q (%v)", user, err)
			}
			if err := server.Reclaim(t.Context(), podEndpoint); !fault.Is(err, fault.Conflict) {
				t.Errorf("reclaim: %v", err)
			}
			if err := node.Cluster.Lose(podEndpoint); err != nil {
				t.Fatal(err)
			}
			fakenode.Eventually(t, "the store has lost the endpoint, and is told again", func() bool { return knows(t, node, podEndpoint) })
			fakenode.EndNamespace(t, netns)
			fakenode.Eventually(t, "its namespace is gone, and it with it", func() bool {
				k8splugin.SweepOnce(server, t.Context(), k8splugin.SweepOnce(server, t.Context(), nil))
				return !knows(t, node, podEndpoint)
			})
		})
	}
}

// A switch that has lost its database counts its links from one again: the checkpoint of a former container names
// another one's link.
func TestTheLinkOfAnotherContainerDoesNotKeepOneThatIsGone(t *testing.T) {
	for what, undo := range map[string]func(t *testing.T, node *fakenode.Node, server *k8splugin.Server, stop func()){
		"sweep": func(t *testing.T, _ *fakenode.Node, server *k8splugin.Server, _ func()) {
			k8splugin.SweepOnce(server, t.Context(), k8splugin.SweepOnce(server, t.Context(), nil))
		},
		"cleanup": func(t *testing.T, _ *fakenode.Node, server *k8splugin.Server, _ func()) {
			if err := server.Reclaim(t.Context(), podEndpoint); err != nil {
				t.Error(err)
			}
		},
		"announcement": func(t *testing.T, node *fakenode.Node, _ *k8splugin.Server, _ func()) {
			if err := node.Cluster.Lose(podEndpoint); err != nil {
				t.Error(err)
			}
		},
		"loss of the checkpoint": func(t *testing.T, node *fakenode.Node, _ *k8splugin.Server, stop func()) {
			stop()
			if err := os.Remove(filepath.Join(node.StateDir(), "pod@eth0.json")); err != nil {
				t.Error(err)
			}
			fresh, err := fakenode.OpenNode(node.Dir) // with no memory of former holders
			if err != nil {
				t.Fatal(err)
			}
			fresh.Start(t)
		},
	} {
		t.Run(what, func(t *testing.T) {
			node := fakenode.NewNode(t)
			server, err := k8splugin.New(node.Config())
			if err != nil {
				t.Fatal(err)
			}
			stop := node.Run(t, server)
			gone, other := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
			do(t, node, request(cniwire.Add, "pod", gone, ""))
			before := node.Switch.Ports()
			fakenode.EndNamespace(t, gone)
			fakenode.Eventually(t, "the link is gone with its namespace", func() bool { return len(node.Switch.Ports()) == 0 })
			do(t, node, request(cniwire.Add, "other", other, ""))
			if now := node.Switch.Ports(); len(before) != 1 || len(now) != 1 || now[0].HostLink != before[0].HostLink {
				t.Fatalf("ports %v, before %v: want one with the name of the other", now, before)
			}
			undo(t, node, server, stop)
			fakenode.Eventually(t, "nothing is left of the container that is gone", func() bool {
				return !knows(t, node, podEndpoint) && !strings.Contains(strings.Join(node.Leftovers(t), " "), "pod@eth0")
			})
			fakenode.InNamespace(t, other, "ping", "-c1", "-W30", "10.1.0.1")
			do(t, node, request(cniwire.Check, "other", other, ""))
			do(t, node, request(cniwire.Del, "other", "", ""))
			node.NothingLeft(t)
		})
	}
}

// A failing STATUS makes a node not ready, and its pods with it: only what lasts and is of
// this node may do that.
func TestANodeOfKubernetesStaysReadyThroughShortOutages(t *testing.T) {
	node := fakenode.NewNode(t)
	alive := cniwire.Heartbeat(node.Socket())
	node.Switch.Fail(fakenode.Ready, errors.New("first sync is pending"))
	node.Start(t, kubernetes, func(c *k8splugin.Config) {
		c.Reachable = func(context.Context) error { return errors.New("no leader") }
	})
	status := cniwire.Request{Command: cniwire.Status, Stdin: []byte(conf)}
	refused(t, node, status, 50) // it has never been ready since the boot
	node.Switch.Fail(fakenode.Ready, nil)
	do(t, node, status) // although there is no leader
	fakenode.Eventually(t, "the heart beats", func() bool { return cniwire.Beats(node.Socket(), time.Minute) })
	node.Switch.Fail(fakenode.Ready, errors.New("no switch"))
	do(t, node, status)
	for what, at := range map[string]time.Duration{"lasts": -time.Minute, "lasts, and the clock was put back since": time.Minute} {
		fakenode.Eventually(t, "STATUS fails when the outage "+what, func() bool {
			then := time.Now().Add(at)
			if err := os.Chtimes(alive, then, then); err != nil {
				t.Fatal(err)
			}
			_, err := node.Do(status)
			return err != nil
		})
	}
}

// Runtimes ask for the status repeatedly, without a deadline and with everything else waiting. It waits neither
// for a leader or a store that does not answer, nor for containers that are being attached and deleted meanwhile.
func TestTheStatusOfANodeOfKubernetesWaitsForNobody(t *testing.T) {
	node := fakenode.NewNode(t)
	release := make(chan struct{})
	released := sync.OnceFunc(func() { close(release) })
	node.Start(t, kubernetes, func(c *k8splugin.Config) {
		c.Reachable = func(context.Context) error { <-release; return nil }
	})
	do(t, node, request(cniwire.Add, "old", fakenode.NewNamespace(t), ""))
	hangs := make(chan string, 8)
	node.Cluster.Watch(func(call string) {
		hangs <- call
		<-release
	})
	var hanging sync.WaitGroup
	t.Cleanup(hanging.Wait)
	t.Cleanup(released)
	for _, r := range []cniwire.Request{request(cniwire.Add, "new", fakenode.NewNamespace(t), ""), request(cniwire.Del, "old", "", "")} {
		hanging.Go(func() { _, _ = node.Do(r) }) // the end of the test may come first
	}
	calls := map[string]bool{<-hangs: true, <-hangs: true}
	if !calls[fakenode.CreateEndpoint] || !calls[fakenode.DeleteEndpoint] {
		t.Fatalf("what hangs: %v", calls)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := node.Do(cniwire.Request{Command: cniwire.Status, Stdin: []byte(conf)})
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil {
			t.Errorf("STATUS: %v", err)
		}
	case <-time.After(time.Minute): // the hanging calls hang until it has answered
		t.Error("STATUS waits for somebody")
	}
	released()
}

// unread is the answer of an agent that has not read the store since it started.
type unread struct{ error }

func (unread) StoreUnread() bool { return true }

// A server that starts while the store is away has no state, but the switch goes on with what a server of this
// boot has configured. It does not matter how long no server ran, nor that the server is restarted again
// meanwhile.
func TestANodeOfKubernetesThatStartsWithoutTheStoreStaysReady(t *testing.T) {
	node := fakenode.NewNode(t)
	alive := cniwire.Heartbeat(node.Socket())
	status := cniwire.Request{Command: cniwire.Status, Stdin: []byte(conf)}
	noStore := unread{errors.New("state has not been read from the store yet")}
	aged := func() {
		then := time.Now().Add(-2 * time.Minute)
		if err := os.Chtimes(alive, then, then); err != nil {
			t.Fatal(err)
		}
	}

	node.Switch.Fail(fakenode.Ready, noStore)
	stop := node.Start(t, kubernetes)
	refused(t, node, status, 50) // no server of this boot has configured the switch
	if _, err := os.Stat(alive); err == nil {
		t.Error("a server that has never been ready has a heartbeat")
	}
	node.Switch.Fail(fakenode.Ready, nil)
	fakenode.Eventually(t, "the heart beats", func() bool { return cniwire.Beats(node.Socket(), time.Minute) })
	stop()

	node.Switch.Fail(fakenode.Ready, noStore)
	aged()
	stop = node.Start(t, kubernetes)
	do(t, node, status)
	fakenode.Eventually(t, "the heart beats, for the time until the switch is in line and for the next server", func() bool {
		return cniwire.Beats(node.Socket(), time.Minute)
	})
	refused(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""), 11)
	for what, err := range map[string]error{"the switch is away": lost{}, "the switch is not in line": errors.New("not in line")} {
		node.Switch.Fail(fakenode.Ready, err)
		fakenode.Eventually(t, "STATUS fails when for long "+what, func() bool {
			aged()
			_, err := node.Do(status)
			return err != nil
		})
	}
	stop()

	node.Switch.Fail(fakenode.Ready, noStore)
	aged()
	node.Start(t) // of another container runtime
	refused(t, node, status, 50)
}
