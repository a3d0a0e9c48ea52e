package k8splugin_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/test/fakenode"
)

// The test binary becomes a server that kills itself at a point of its log or of its calls.
const (
	crashDir   = "CONTIV_TEST_CRASH_DIR"
	crashPoint = "CONTIV_TEST_CRASH_POINT"
)

func serveUntilKilled(dir string) int {
	node, err := fakenode.OpenNode(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	config := node.Config()
	config.Log.Logger.SetLevel(logrus.DebugLevel)
	config.Log.Logger.AddHook(dieAt(os.Getenv(crashPoint)))
	node.Switch.Watch(dieAt(os.Getenv(crashPoint)).reached)
	node.Cluster.Watch(dieAt(os.Getenv(crashPoint)).reached)
	server, err := k8splugin.New(config)
	if err == nil {
		err = server.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, "server:", err)
	return 1
}

// dieAt is a point to die at, as a hook of the log.
type dieAt string

func (dieAt) Levels() []logrus.Level           { return logrus.AllLevels }
func (d dieAt) Fire(entry *logrus.Entry) error { d.reached(entry.Message); return nil }

func (d dieAt) reached(point string) {
	if point == string(d) {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
}

// crashingServer starts a server on the node that dies at a point.
func crashingServer(t *testing.T, node *fakenode.Node, point string) *exec.Cmd {
	t.Helper()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), crashDir+"="+node.Dir, crashPoint+"="+point)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if child.ProcessState == nil {
			child.Process.Kill()
			child.Wait()
		}
	})
	node.AwaitServer(t)
	return child
}

// awaitDeath fails the test unless the server was killed.
func awaitDeath(t *testing.T, child *exec.Cmd) {
	t.Helper()
	err := child.Wait()
	if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("server ended with %v, should have been killed", err)
	}
}

const lastPointOfAdd = "add: ready"

func TestAnAddWhoseServerIsKilledIsUndoneByTheNext(t *testing.T) {
	for _, point := range []string{
		"add: begin",
		fakenode.PreparePort, fakenode.PreparePort + " done",
		fakenode.CreateEndpoint, fakenode.CreateEndpoint + " done",
		"add: set up", "add: flows",
		fakenode.Attach, fakenode.Attach + " done",
		"add: bring up", "add: checkpoint", lastPointOfAdd,
	} {
		t.Run(point, func(t *testing.T) {
			node := fakenode.NewNode(t)
			add := request(cniwire.Add, "pod", fakenode.NewNamespace(t), "")
			child := crashingServer(t, node, point)
			if answer, err := node.Do(add); err == nil {
				t.Fatalf("ADD answered %s", answer)
			}
			awaitDeath(t, child)
			node.Start(t)
			if point == lastPointOfAdd { // nothing was missing but the answer
				do(t, node, request(cniwire.Check, "pod", add.Netns, ""))
			} else {
				node.NothingLeft(t)
			}
			do(t, node, add)
			do(t, node, request(cniwire.Check, "pod", add.Netns, ""))
			for range 2 {
				do(t, node, request(cniwire.Del, "pod", "", ""))
			}
			node.NothingLeft(t)
		})
	}
}

func TestADelWhoseServerIsKilledIsFinishedByTheNext(t *testing.T) {
	for _, point := range []string{
		"undo: datapath", fakenode.Detach + " done",
		"undo: master", fakenode.DeleteEndpoint + " done",
		"undo: checkpoint",
	} {
		t.Run(point, func(t *testing.T) {
			node := fakenode.NewNode(t)
			child := crashingServer(t, node, point)
			do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
			if _, err := node.Do(request(cniwire.Del, "pod", "", "")); err == nil {
				t.Fatal("DEL was answered")
			}
			awaitDeath(t, child)
			node.Start(t)
			node.NothingLeft(t)
			do(t, node, request(cniwire.Del, "pod", "", ""))
		})
	}
}

func TestContainersKeepTheirInterfaceWhileTheServerRestarts(t *testing.T) {
	node := fakenode.NewNode(t)
	netns := fakenode.NewNamespace(t)
	child := crashingServer(t, node, "never")
	first := do(t, node, request(cniwire.Add, "pod", netns, ""))
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitDeath(t, child)
	fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "10.1.0.1")
	node.Start(t)
	if again := do(t, node, request(cniwire.Add, "pod", netns, "")); string(again) != string(first) {
		t.Errorf("after the restart ADD answers %s, before %s", again, first)
	}
}
