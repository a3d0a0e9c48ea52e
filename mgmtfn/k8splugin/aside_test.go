package k8splugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/test/fakenode"
)

// A checkpoint that was set aside is a problem of the node until its file is removed, also after further starts.
func TestACheckpointThatWasSetAsideIsAProblemUntilItIsRemoved(t *testing.T) {
	node := fakenode.NewNode(t)
	path := filepath.Join(node.StateDir(), "pod@eth0.json")
	if err := os.MkdirAll(node.StateDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var server *k8splugin.Server
	for range 2 {
		var err error
		if server, err = k8splugin.New(node.Config()); err != nil {
			t.Fatal(err)
		}
		if problem := server.Problem(); !strings.Contains(problem, path+".corrupt") || !strings.Contains(problem, "remove") {
			t.Errorf("problem %q", problem)
		}
	}
	if err := os.Remove(path + ".corrupt"); err != nil {
		t.Fatal(err)
	}
	if problem := server.Problem(); problem != "" {
		t.Errorf("problem %q when the file is removed", problem)
	}
}

func TestFormerBootsThatCannotBeReadAreAnErrorWithARemedy(t *testing.T) {
	node := fakenode.NewNode(t)
	if err := os.MkdirAll(filepath.Join(node.StateDir(), "boots"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := k8splugin.New(node.Config()); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("error %v", err)
	}
}
