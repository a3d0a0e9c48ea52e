package embedded_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
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

// grownTrio is a cluster of which one member was there first. Members that were added have ids that depend on the time.
func grownTrio(t *testing.T) (trio, *objdb.DB) {
	t.Helper()
	a := growing(t, "a")
	c := trio{map[string]embedded.Config{"a": a, "b": growing(t, "b"), "c": growing(t, "c")}, map[string]*embedded.Server{}}
	c.start(t, "a")
	db := connect(t, a.ClientURL)
	for _, name := range []string{"b", "c"} {
		cfg := c.cfgs[name]
		peers, err := db.AddMember(t.Context(), name, cfg.PeerURL)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Peers = peers
		c.cfgs[name] = cfg
		c.start(t, name)
	}
	voting(t, db)
	return c, db
}

func (c trio) backup(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "backup")
	etcdctl(t, "--endpoints", c.cfgs["a"].ClientURL, "snapshot", "save", path)
	return path
}

// restore replaces the data of a stopped member.
func (c trio) restore(t *testing.T, name, backup string) {
	t.Helper()
	var all []string
	for name, cfg := range c.cfgs {
		all = append(all, name+"="+cfg.PeerURL)
	}
	cfg, restored := c.cfgs[name], filepath.Join(t.TempDir(), "restored")
	etcdctl(t, "snapshot", "restore", backup, "--data-dir", restored, "--name", name, "--initial-cluster", strings.Join(all, ","),
		"--initial-advertise-peer-urls", cfg.PeerURL, "--initial-cluster-token", "contiv")
	if err := os.RemoveAll(filepath.Join(cfg.Dir, "member")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(restored, "member"), filepath.Join(cfg.Dir, "member")); err != nil {
		t.Fatal(err)
	}
	cfg.Peers = nil // its data decides
	c.cfgs[name] = cfg
}

func (c trio) stop(t *testing.T) {
	t.Helper()
	for _, m := range c.members {
		testetcd.Stop(t, m)
	}
}

// startAll starts all members; a member alone waits for the others.
func (c trio) startAll(t *testing.T) {
	t.Helper()
	for name, cfg := range c.cfgs {
		c.members[name] = start(t, within(0), cfg)
	}
}

func TestAStoreThatHasGrownIsRestoredByEtcdctl(t *testing.T) {
	c, db := grownTrio(t)
	testdb.Put(t, db, "/x/a", "saved")
	backup := c.backup(t)
	testdb.Put(t, db, "/x/a", "later")
	c.stop(t)
	for name := range c.cfgs {
		c.restore(t, name, backup)
	}
	c.startAll(t)
	for _, want := range []string{"saved", "new"} { // from the restored data, and from what it has become
		for name, m := range c.members {
			testetcd.Ready(t, m)
			has(t, connect(t, c.cfgs[name].ClientURL), "/x/a", want)
		}
		testkit.Eventually(t, time.Minute, "writes go on", func() bool { return put(trying(t, c.cfgs["a"].ClientURL), "new") == nil })
		c.stop(t)
		c.startAll(t)
	}
}

// Each would take what the others write for the next change after its own, different data, and answer differently.
func TestMembersRestoredFromDifferentBackupsDoNotBelieveEachOther(t *testing.T) {
	c, db := grownTrio(t)
	testdb.Put(t, db, "/x/a", "older")
	older := c.backup(t)
	testdb.Put(t, db, "/x/a", "newer")
	newer := c.backup(t)
	c.stop(t)
	c.restore(t, "a", newer)
	c.restore(t, "b", newer)
	c.restore(t, "c", older)
	c.startAll(t)
	testetcd.Ready(t, c.members["a"])
	testetcd.Ready(t, c.members["b"])
	testkit.Eventually(t, time.Minute, "the two serve", func() bool { return put(trying(t, c.cfgs["a"].ClientURL), "new") == nil })
	select {
	case <-c.members["c"].Ready():
		t.Error("a member with older data serves beside them")
	case err := <-c.members["c"].Err():
		t.Error(err)
	case <-time.After(5 * time.Second): // five times the time in which a member votes
	}
	testetcd.Stop(t, c.members["c"])
	c.restore(t, "c", newer) // as it is told, though late: what was written since is missing there
	c.start(t, "c")
	has(t, connect(t, c.cfgs["c"].ClientURL), "/x/a", "new")
}

// Without that, the process ends with a Go trace.
func TestARestoredMemberWithADamagedDatabaseIsRefused(t *testing.T) {
	c, _ := grownTrio(t)
	backup := c.backup(t)
	c.stop(t)
	c.restore(t, "a", backup)
	file, err := os.OpenFile(filepath.Join(c.cfgs["a"].Dir, "member", "snap", "db"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(make([]byte, 8192), 0) // both descriptions
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err := embedded.Start(within(time.Second), c.cfgs["a"]); err == nil || !strings.Contains(err.Error(), "invalid database") {
		t.Errorf("%v, %v", s, err)
	}
}
