package k8splugin_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/pending"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

var away = fault.New(fault.Unavailable, "connection refused")

func TestADelIsFinishedWhenWhatItNeedsIsBack(t *testing.T) {
	for _, call := range []string{fakenode.DeleteEndpoint, fakenode.Detach} {
		t.Run(call, func(t *testing.T) {
			node := fakenode.NewNode(t)
			node.Start(t)
			do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
			node.Cluster.Fail(call, away)
			node.Switch.Fail(call, away)
			do(t, node, request(cniwire.Del, "pod", "", ""))
			do(t, node, request(cniwire.Del, "pod", "", ""))
			if left := node.Leftovers(t); left == nil {
				t.Fatal("the part that could not be removed is not remembered")
			}
			node.Cluster.Fail(call, nil)
			node.Switch.Fail(call, nil)
			node.NothingLeft(t)
		})
	}
}

// onSmallDisk returns a node with little room for checkpoints; full fills the rest of it, and free releases it.
func onSmallDisk(t *testing.T) (node *fakenode.Node, full, free func()) {
	t.Helper()
	testkit.NeedsMachine(t)
	node = fakenode.NewNode(t)
	if err := os.MkdirAll(node.StateDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", node.StateDir(), "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(node.StateDir(), unix.MNT_DETACH) })
	filler := filepath.Join(node.StateDir(), "filler")
	return node, func() {
			t.Helper()
			if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("the disk is not full: %v", err)
			}
		}, func() {
			t.Helper()
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
		}
}

// Kubelet ends pods because the disk is full.
func TestADelNeedsNoRoomOnTheDisk(t *testing.T) {
	node, full, free := onSmallDisk(t)
	node.Start(t)
	do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
	full()
	node.Cluster.Fail(fakenode.DeleteEndpoint, away)
	refused(t, node, request(cniwire.Del, "pod", "", ""), 5) // nobody would remember the rest
	node.Cluster.Fail(fakenode.DeleteEndpoint, nil)
	do(t, node, request(cniwire.Del, "pod", "", ""))
	free()
	node.NothingLeft(t)
}

// Somebody removes the folder while the server runs: containers come and go as before.
func TestAFolderOfCheckpointsThatIsRemovedIsMadeAnew(t *testing.T) {
	node := fakenode.NewNode(t)
	stop := node.Start(t)
	do(t, node, request(cniwire.Add, "before", fakenode.NewNamespace(t), ""))
	if err := os.RemoveAll(node.StateDir()); err != nil {
		t.Fatal(err)
	}
	do(t, node, request(cniwire.Add, "after", fakenode.NewNamespace(t), ""))
	do(t, node, request(cniwire.Del, "before", "", ""))
	stop()
	node.Start(t)
	do(t, node, request(cniwire.Del, "after", "", ""))
	node.NothingLeft(t)
}

// A machine that boots again with a full disk serves its pods; unfinished deletions are finished.
func TestAServerStartsOnAFullDisk(t *testing.T) {
	node, full, free := onSmallDisk(t)
	stop := node.Start(t)
	do(t, node, request(cniwire.Add, "deleted", fakenode.NewNamespace(t), ""))
	do(t, node, request(cniwire.Add, "begun", fakenode.NewNamespace(t), ""))
	stop()
	store, _, err := attachment.Open(node.StateDir())
	if err != nil {
		t.Fatal(err)
	}
	r, ok := store.Get(cniwire.Attachment{ContainerID: "begun", IfName: "eth0"})
	if !ok {
		t.Fatal("no checkpoint")
	}
	if err := store.Begin(&r, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := pending.Open(node.StateDir()).Put(request(cniwire.Del, "deleted", "", "")); err != nil {
		t.Fatal(err)
	}
	full()
	var told atomic.Int32
	node.Start(t, func(c *k8splugin.Config) { c.Boot, c.AttachedChanged = "another", func() { told.Add(1) } })
	fakenode.Eventually(t, "what was begun and what was deleted is gone, and the host is told", func() bool {
		left, err := node.Cluster.Endpoints()
		return err == nil && len(left) == 0 && told.Load() > 0
	})
	free()
	do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
	do(t, node, request(cniwire.Del, "pod", "", ""))
	node.NothingLeft(t)
}

func TestAFailedAddIsUndoneWhenTheMasterIsBack(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	node.Switch.Fail(fakenode.Attach, errors.New("flows refused"))
	node.Cluster.Fail(fakenode.DeleteEndpoint, away)
	add := request(cniwire.Add, "pod", fakenode.NewNamespace(t), "")
	refused(t, node, add, 103)
	node.Switch.Fail(fakenode.Attach, nil)
	refused(t, node, add, 104) // the leftover comes first
	node.Cluster.Fail(fakenode.DeleteEndpoint, nil)
	node.NothingLeft(t)
	do(t, node, add)
}

func TestADelNeedsNothingButTheAttachment(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Del, "unknown", netns, ""))
	do(t, node, request(cniwire.Add, "pod", netns, "IO_CONTIV_TENANT=blue;IO_CONTIV_NETWORK=web"))
	bare := cniwire.Request{Command: cniwire.Del, ContainerID: "pod", IfName: "eth0", Netns: "/run/netns/gone", Stdin: []byte(`"rubbish"`)}
	do(t, node, bare)
	do(t, node, bare)
	node.NothingLeft(t)
}

// A runtime that calls DEL ten times at once, while the ADD is in progress, removes one container. The remaining
// calls do not affect the pod's next one.
func TestTenDeletionsAtOnceAreOne(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t, func(c *k8splugin.Config) { c.Limits.Ready = time.Minute })
	attaching := make(chan struct{}, 1000)
	node.Switch.Fail(fakenode.Ready, errors.New("first sync is pending"))
	node.Switch.Watch(func(string) { attaching <- struct{}{} })
	first, next := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = node.Do(request(cniwire.Add, "first", first, "")) }) // whatever becomes of it
	<-attaching
	for range 10 {
		calls.Go(func() {
			if _, err := node.Do(request(cniwire.Del, "first", first, "")); err != nil {
				t.Error(err)
			}
		})
	}
	node.Switch.Watch(nil)
	node.Switch.Fail(fakenode.Ready, nil)
	calls.Wait()
	do(t, node, request(cniwire.Del, "first", "", ""))
	node.NothingLeft(t)

	do(t, node, request(cniwire.Add, "next", next, ""))
	for range 10 {
		do(t, node, request(cniwire.Del, "first", first, ""))
	}
	do(t, node, request(cniwire.Check, "next", next, ""))
}

func TestDeletionsQueuedOnDiskAreCarriedOut(t *testing.T) {
	node := fakenode.NewNode(t)
	stop := node.Start(t)
	for _, pod := range []string{"first", "second"} {
		do(t, node, request(cniwire.Add, pod, fakenode.NewNamespace(t), ""))
	}
	stop()
	queue := pending.Open(node.StateDir())
	put := func(container string) {
		t.Helper()
		if err := queue.Put(request(cniwire.Del, container, "", "")); err != nil {
			t.Fatal(err)
		}
	}
	put("first")
	put("unknown")
	stop = node.Start(t, func(c *k8splugin.Config) { c.Limits.PendingScan = time.Hour })
	fakenode.Eventually(t, "the deletion queued while no server ran is carried out", func() bool {
		left := strings.Join(node.Leftovers(t), " ")
		return !strings.Contains(left, "first") && !strings.Contains(left, "unknown")
	})
	stop()
	node.Start(t)
	put("second")
	node.NothingLeft(t)
}

func TestAnAddComesAfterTheDeletionQueuedBeforeIt(t *testing.T) {
	node := fakenode.NewNode(t)
	stop := node.Start(t, func(c *k8splugin.Config) { c.Limits.PendingScan = time.Hour })
	netns := fakenode.NewNamespace(t)
	add := request(cniwire.Add, "pod", netns, "")
	do(t, node, add)
	if err := pending.Open(node.StateDir()).Put(request(cniwire.Del, "pod", netns, "")); err != nil {
		t.Fatal(err)
	}
	do(t, node, add)
	stop()
	node.Start(t) // which reads the queue
	do(t, node, request(cniwire.Check, "pod", netns, ""))
}

// withoutScan returns a node whose server does not look for queued deletions periodically.
func withoutScan(t *testing.T) (*fakenode.Node, *k8splugin.Server) {
	t.Helper()
	node := fakenode.NewNode(t)
	config := node.Config()
	config.Limits.PendingScan = time.Hour
	server, err := k8splugin.New(config)
	if err != nil {
		t.Fatal(err)
	}
	node.Run(t, server)
	return node, server
}

func TestADeletionThatAnAddHasCarriedOutSaysNothingOfTheNewContainer(t *testing.T) {
	node, server := withoutScan(t)
	netns := fakenode.NewNamespace(t)
	add := request(cniwire.Add, "pod", netns, "")
	do(t, node, add)
	queue := pending.Open(node.StateDir())
	if err := queue.Put(request(cniwire.Del, "pod", netns, "")); err != nil {
		t.Fatal(err)
	}
	listed, err := queue.List()
	if err != nil || len(listed) != 1 {
		t.Fatalf("queue: %v, %v", listed, err)
	}
	do(t, node, add) // before the listed deletion is processed
	if err := k8splugin.AcceptDeletion(server, t.Context(), listed[0].Attachment()); err != nil {
		t.Fatal(err)
	}
	do(t, node, request(cniwire.Check, "pod", netns, ""))
	do(t, node, request(cniwire.Del, "pod", "", ""))
	node.NothingLeft(t)
}

// A postponed DEL is answered when its deletion is accepted, also if the worker has found it in the queue
// meanwhile and accepts it.
func TestADeletionIsAcceptedForEachWhoAsksForIt(t *testing.T) {
	node, server := withoutScan(t)
	do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
	node.Cluster.Fail(fakenode.DeleteEndpoint, away) // its checkpoint stays
	deletion := request(cniwire.Del, "pod", "", "")
	if err := pending.Open(node.StateDir()).Put(deletion); err != nil {
		t.Fatal(err)
	}
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			if err := k8splugin.AcceptDeletion(server, t.Context(), deletion.Attachment()); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(filepath.Join(node.StateDir(), "pod@eth0.json")); err != nil || !strings.Contains(string(text), `"deleting"`) {
				t.Errorf("the checkpoint of who was answered: %s, %v", text, err)
			}
		})
	}
	asking.Wait()
	node.Cluster.Fail(fakenode.DeleteEndpoint, nil)
	node.NothingLeft(t)
}

func TestGarbageCollectionDropsWhatTheRuntimeDoesNotList(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	kept := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "kept", kept, ""))
	do(t, node, request(cniwire.Add, "stale", fakenode.NewNamespace(t), ""))
	foreign := request(cniwire.Add, "foreign", fakenode.NewNamespace(t), "")
	foreign.Stdin = []byte(`{"cniVersion": "1.1.0", "name": "other-net", "type": "contivk8s"}`)
	do(t, node, foreign)

	gc := cniwire.Request{Command: cniwire.GC, Stdin: []byte(conf)}
	for _, key := range []string{"cni.dev/valid-attachments", "cni.dev/attachments"} {
		gc.Stdin = json.RawMessage(`{"cniVersion": "1.1.0", "name": "contiv-net", "` + key + `": [{"containerID": "kept", "ifname": "eth0"}]}`)
		do(t, node, gc)
		endpoints, err := node.Cluster.Endpoints()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"default-net.default-foreign", "default-net.default-kept"}, endpoints); diff != "" {
			t.Errorf("endpoints after GC with %s: %s", key, diff)
		}
	}
	do(t, node, request(cniwire.Check, "kept", kept, ""))

	node.Cluster.Fail(fakenode.DeleteEndpoint, away)
	gc.Stdin = []byte(`{"cniVersion": "1.1.0", "name": "contiv-net", "cni.dev/valid-attachments": []}`)
	if e := refused(t, node, gc, 104); !strings.Contains(e.Msg, "kept@eth0") {
		t.Errorf("message %q does not name the attachment", e.Msg)
	}
	node.Cluster.Fail(fakenode.DeleteEndpoint, nil)
	do(t, node, request(cniwire.Del, "foreign", "", ""))
	node.NothingLeft(t)
}

// A container that was added again since the runtime made its list is not the one that the list lacks.
func TestGarbageCollectionLeavesWhatWasAddedAgainMeanwhile(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	do(t, node, request(cniwire.Add, "first", fakenode.NewNamespace(t), ""))
	do(t, node, request(cniwire.Add, "second", fakenode.NewNamespace(t), ""))
	again := fakenode.NewNamespace(t)
	var begun atomic.Bool
	node.Cluster.Watch(func(call string) {
		if call == fakenode.DeleteEndpoint && begun.CompareAndSwap(false, true) { // the first one's, while the second one waits for its turn
			do(t, node, request(cniwire.Del, "second", "", ""))
			do(t, node, request(cniwire.Add, "second", again, ""))
		}
	})
	do(t, node, cniwire.Request{Command: cniwire.GC, Stdin: []byte(`{"cniVersion": "1.1.0", "name": "contiv-net", "cni.dev/valid-attachments": []}`)})
	if endpoints, err := node.Cluster.Endpoints(); err != nil || len(endpoints) != 1 || endpoints[0] != "default-net.default-second" {
		t.Errorf("endpoints %v, %v", endpoints, err)
	}
	do(t, node, request(cniwire.Check, "second", again, ""))
	do(t, node, request(cniwire.Del, "second", "", ""))
	node.NothingLeft(t)
}
