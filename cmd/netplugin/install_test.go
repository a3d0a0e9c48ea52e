package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv("BE_NETPLUGIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// The folder for pods' configuration exists when the service's sandbox begins, as its unit prepares it.
func TestInstallMakesTheFolderOfPodsConfiguration(t *testing.T) {
	testkit.NeedsMachine(t)
	dir := filepath.Join(t.TempDir(), "cni", "net.d")
	// The name server's namespaces are made in a folder that ends with the program.
	cmd := exec.Command("unshare", "--mount", "sh", "-ec", `mkdir -p /run/netns; mount -t tmpfs none /run/netns; exec "$@"`, "sh",
		os.Args[0], "install", "--cni-source=")
	cmd.Env = append(os.Environ(), "BE_NETPLUGIN=1", "CONTIV_NETPLUGIN_CNI_CONF_DIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if f, err := os.Stat(dir); err != nil || !f.IsDir() {
		t.Errorf("%v, %v: %s", f, err, out)
	}
}
