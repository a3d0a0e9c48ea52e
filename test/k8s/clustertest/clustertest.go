// Package clustertest starts clusters of real components for tests.
package clustertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
)

// IsShort reports whether only the short form of these tests is wanted, which runs after every change.
func IsShort() bool { return os.Getenv("CONTIV_TEST_K8S") == "short" }

// Up starts a cluster that ends with the test; if the test fails, its logs are printed first. It sets directory,
// programs and log of the configuration. The test is skipped unless CONTIV_TEST_K8S asks for a cluster, and in the
// short form unless short is true.
func Up(t *testing.T, of cluster.Config, short bool) *cluster.Cluster {
	t.Helper()
	switch {
	case os.Getenv("CONTIV_TEST_K8S") == "":
		t.Skip("takes minutes and what `make k8s-build` builds: make e2e-k8s")
	case IsShort() && !short:
		t.Skip("the short form has none of it")
	}
	bin, err := filepath.Abs("../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	of.Dir, of.Bin, of.Log = filepath.Join(t.TempDir(), "k8s"), bin, t.Output()
	c, err := cluster.Up(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.DumpLogs(t.Output())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// API returns a client of a cluster's API server, which is closed when the test ends.
func API(t *testing.T, c *cluster.Cluster) *cluster.API {
	t.Helper()
	api, err := c.API()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api
}
