package embedded_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
)

// Without that, the first ends the process with a fault in memory, the next two wait for a quorum, and of a damaged
// record etcd logs a fatal error, which must not end the goroutine that starts the member.
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
		"a record of the database is damaged": {func(_ *testing.T, member string) error {
			db, err := bbolt.Open(filepath.Join(member, "snap", "db"), 0o600, nil)
			if err != nil {
				return err
			}
			return errors.Join(db.Update(func(tx *bbolt.Tx) error {
				records := tx.Bucket(schema.Key.Name())
				last, _ := records.Cursor().Last()
				return records.Put(last, []byte{0xff})
			}), db.Close())
		}, "etcd gives up: failed to unmarshal mvccpb.KeyValue: proto: cannot parse invalid wire-format data; if its data is damaged, add the member again"},
		"a bit of the log is flipped": {func(t *testing.T, member string) error {
			logs, err := filepath.Glob(filepath.Join(member, "wal", "*.wal"))
			if err != nil || len(logs) != 1 {
				t.Fatal(logs, err)
			}
			text, err := os.ReadFile(logs[0])
			if err != nil {
				return err
			}
			text[bytes.Index(text, []byte("http://127.0.0.1"))] ^= 0x10
			return os.WriteFile(logs[0], text, 0o600)
		}, "crc mismatch"},
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
