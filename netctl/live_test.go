package netctl

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/daemon"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/test/testkit"
)

// TestMain keeps the settings of the machine's user from the tests.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "netctl")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		os.Setenv("NETCTL_CONFIG", filepath.Join(dir, "config.json"))
		os.Unsetenv("NETMASTER")
		os.Unsetenv("INSECURE")
		return m.Run()
	}())
}

// store is an etcd for netmasters.
type store struct{ url string }

func startStore(t *testing.T) store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	server, err := embedded.Start(ctx, embedded.Config{Dir: t.TempDir(), Name: "test",
		ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), NoFsync: true, Log: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return store{server.ClientURLs()[0]}
}

// startMaster empties the store and runs a netmaster on it, as in a cluster that has just been installed; it ends
// with the test. It returns the URL.
func (s store) startMaster(t *testing.T) string {
	t.Helper()
	return s.startMasterAt(t, "")
}

// startMasterAt is startMaster with the path of a socket for root.
func (s store) startMasterAt(t *testing.T, socket string) string {
	t.Helper()
	s.empty(t)
	address := testkit.FreeAddress()
	d, err := daemon.New(daemon.Config{
		Listen: address, Control: address, LeaderTTL: time.Minute, NodeGrace: time.Hour, Log: testkit.Quiet(),
		Security: daemon.Security{Dir: filepath.Join(t.TempDir(), "pki"), Founding: mastercfg.SecurityPermissive, Name: "m1", Socket: socket},
		Store:    objdb.Config{Endpoints: []string{s.url}, Log: testkit.Quiet()},
		API: api.Config{ClusterMode: "cni", Log: testkit.Quiet(),
			Defaults: api.WithDefaults(contivmodel.Global{FwdMode: "routing"})},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	url := "http://" + address
	testkit.Eventually(t, 20*time.Second, "a leader", func() bool {
		return run(t, url, "tenant inspect default").code == 0
	})
	return url
}

// open connects to the store.
func (s store) open(t *testing.T) *objdb.DB {
	t.Helper()
	db, err := objdb.Open(objdb.Config{Endpoints: []string{s.url}, Log: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// content returns the store's content below a prefix.
func (s store) content(t *testing.T, prefix string) map[string]string {
	t.Helper()
	db := s.open(t)
	defer db.Close()
	kvs, _, err := db.List(t.Context(), prefix)
	if err != nil || len(kvs) == 0 {
		t.Fatalf("%d keys below %s, %v", len(kvs), prefix, err)
	}
	content := map[string]string{}
	for _, kv := range kvs {
		content[kv.Key] = string(kv.Value)
	}
	return content
}

// empty deletes everything in the store.
func (s store) empty(t *testing.T) {
	t.Helper()
	db := s.open(t)
	defer db.Close()
	for {
		kvs, _, err := db.List(t.Context(), "/contiv.io/")
		if err != nil {
			t.Fatal(err)
		}
		if len(kvs) == 0 {
			return
		}
		var txn objdb.Txn
		for _, kv := range kvs[:min(100, len(kvs))] {
			txn.Deletes = append(txn.Deletes, kv.Key)
		}
		if _, _, err := db.Txn(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
}

// post sends an agent's request.
func post(t *testing.T, url, path, body string) {
	t.Helper()
	resp, err := http.Post(url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("POST %s %s: %s %s %v", path, body, resp.Status, answer, err)
	}
}
