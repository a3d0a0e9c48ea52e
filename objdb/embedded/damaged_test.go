package embedded_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
)

// Without that, the first ends the process with a fault in memory, and the second waits for a quorum.
func TestDamagedDataIsRefusedWithItsCause(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, member string) error
		says   string
	}{
		"the database is cut off": {func(_ *testing.T, member string) error {
			return os.Truncate(filepath.Join(member, "snap", "db"), 9000)
		}, "is damaged: it has 9000 of at least"},
		"the log is gone": {func(_ *testing.T, member string) error {
			return os.RemoveAll(filepath.Join(member, "wal"))
		}, "no write-ahead log"},
		"the files of the log are gone": {func(t *testing.T, member string) error {
			logs, err := filepath.Glob(filepath.Join(member, "wal", "*.wal"))
			for _, log := range logs {
				if err := os.Remove(log); err != nil {
					t.Error(err)
				}
			}
			return err
		}, "no write-ahead log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := growing(t, "a")
			s := start(t, within(time.Minute), cfg)
			testetcd.Ready(t, s)
			if err := put(connect(t, cfg.ClientURL), "1"); err != nil {
				t.Fatal(err)
			}
			testetcd.Stop(t, s)
			if err := c.damage(t, filepath.Join(cfg.Dir, "member")); err != nil {
				t.Fatal(err)
			}
			if s, err := embedded.Start(within(time.Second), cfg); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v", s, err)
			}
		})
	}
}

// The database is made before the log.
func TestAMemberThatWasKilledBeforeItHadALogStarts(t *testing.T) {
	cfg := growing(t, "a")
	snap := filepath.Join(cfg.Dir, "member", "snap")
	if err := os.MkdirAll(snap, 0o700); err != nil {
		t.Fatal(err)
	}
	db := backend.NewDefaultBackend(zap.NewNop(), filepath.Join(snap, "db"))
	schema.NewMembershipBackend(zap.NewNop(), db).MustCreateBackendBuckets()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	testetcd.Ready(t, start(t, within(time.Minute), cfg))
}
