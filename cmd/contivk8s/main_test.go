package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/test/fakenode"
)

// pluginDir holds the program under test, built as it is shipped.
var pluginDir string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	const inherited = "CONTIVK8S_TEST_DIR"
	pluginDir = os.Getenv(inherited)
	if pluginDir == "" {
		dir, err := os.MkdirTemp("", "contivk8s-test-")
		if err == nil {
			defer os.RemoveAll(dir)
			pluginDir = dir
			err = build(dir)
		}
		if err == nil {
			err = os.Setenv(inherited, dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return fakenode.Isolate(m)
}

// build makes contivk8s and the reference client of the CNI project.
func build(dir string) error {
	for target, pkg := range map[string]string{
		netconf.PluginType: ".",
		"cnitool":          "github.com/containernetworking/cni/cnitool",
	} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, target), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	}
	return nil
}
