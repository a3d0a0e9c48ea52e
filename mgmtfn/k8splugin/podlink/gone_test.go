package podlink_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/test/fakenode"
)

func TestANamespaceIsGoneWhenItsRuntimeHasEndedIt(t *testing.T) {
	path, other := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	n, err := podlink.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	id := n.ID()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	unseen := filepath.Join(t.TempDir(), "netns") // as where mounts of the host are not passed on
	if err := os.WriteFile(unseen, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(when, path string, want bool) {
		t.Helper()
		if got, err := podlink.Gone(path, id); got != want || err != nil {
			t.Errorf("%s: gone %v, %v", when, got, err)
		}
	}
	says("it lives", path, false)
	says("another one is there", other, true)
	says("its path leads to no namespace from here", unseen, false)
	says("the folder is not there", "/nonsense/netns", false)
	says("a process that is in another one", ofParent(), true)
	says("no process has this number", "/proc/4194305/ns/net", true) // more than there can be
	says("one by no number", "/proc/none/ns/net", false)
	fakenode.EndNamespace(t, path)
	says("it has ended", path, true)
	if _, err := podlink.Gone(filepath.Join(unseen, "netns"), id); err == nil {
		t.Error("a file is taken for a folder")
	}
}

// ofParent returns the path of the parent process's network namespace.
func ofParent() string { return fmt.Sprintf("/proc/%d/ns/net", os.Getppid()) }

// A process id depends on the observer's pid namespace; here it may be another process's.
func TestAPathThatLeadsElsewhereHereIsNotSeen(t *testing.T) {
	path, other := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	n, err := podlink.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for at, want := range map[string]bool{path: true, other: false, "/proc/4194305/ns/net": false, ofParent(): false} {
		if got := n.Seen(at); got != want {
			t.Errorf("%s: seen %v", at, got)
		}
	}
}
