package embedded_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// etcdctl runs Debian's etcdctl, which operators have.
func etcdctl(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "etcdctl", args...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("etcdctl %v: %v: %s", args, err, out)
	}
}

// A member that was added while the cluster ran has an id that depends on the time; a restored one has another one.
// The backup is older than a write, so the store must have gone back.
func TestAStoreThatHasGrownIsRestoredByEtcdctl(t *testing.T) {
	a := growing(t, "a")
	members := map[string]*embedded.Server{"a": start(t, within(time.Minute), a)}
	testetcd.Ready(t, members["a"])
	db := connect(t, a.ClientURL)
	cfgs := map[string]embedded.Config{"a": a, "b": growing(t, "b"), "c": growing(t, "c")}
	for _, name := range []string{"b", "c"} {
		cfg := cfgs[name]
		peers, err := db.AddMember(t.Context(), name, cfg.PeerURL)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Peers = peers
		members[name] = start(t, within(time.Minute), cfg)
		testetcd.Ready(t, members[name])
	}
	voting(t, db)
	testdb.Put(t, db, "/x/a", "saved")
	backup := filepath.Join(t.TempDir(), "backup")
	etcdctl(t, "--endpoints", a.ClientURL, "snapshot", "save", backup)
	testdb.Put(t, db, "/x/a", "later")
	for _, m := range members {
		testetcd.Stop(t, m)
	}
	var all []string
	for name, cfg := range cfgs {
		all = append(all, name+"="+cfg.PeerURL)
	}
	soon := within(0) // a member alone waits for the others
	for name, cfg := range cfgs {
		restored := filepath.Join(t.TempDir(), "restored")
		etcdctl(t, "snapshot", "restore", backup, "--data-dir", restored, "--name", name, "--initial-cluster", strings.Join(all, ","),
			"--initial-advertise-peer-urls", cfg.PeerURL, "--initial-cluster-token", "contiv")
		if err := os.RemoveAll(filepath.Join(cfg.Dir, "member")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(restored, "member"), filepath.Join(cfg.Dir, "member")); err != nil {
			t.Fatal(err)
		}
		cfg.Peers = nil // its data decides
		cfgs[name], members[name] = cfg, start(t, soon, cfg)
	}
	for round := range 2 { // from the restored data, and from what it has become
		for name := range cfgs {
			testetcd.Ready(t, members[name])
			has(t, connect(t, cfgs[name].ClientURL), "/x/a", []string{"saved", "new"}[round])
		}
		testkit.Eventually(t, time.Minute, "writes go on", func() bool { return put(trying(t, a.ClientURL), "new") == nil })
		for name := range cfgs {
			testetcd.Stop(t, members[name])
		}
		if round == 0 {
			for name, cfg := range cfgs {
				members[name] = start(t, soon, cfg)
			}
		}
	}
}
