package embedded_test

import (
	"bytes"
	"encoding/binary"
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

// Without that, the first ends the process with a fault in memory, the next three wait for a quorum, and of a damaged
// record etcd logs a fatal error, which must not end the goroutine that starts the member.
func TestDamagedDataIsRefusedWithItsCause(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, member string) error
		says   string
	}{
		"the database is cut off": {func(_ *testing.T, member string) error {
			return os.Truncate(filepath.Join(member, "snap", "db"), 9000)
		}, "is damaged: it has 9000 of at least"},
		"the note of its foundation is damaged": {func(_ *testing.T, member string) error {
			return os.WriteFile(filepath.Join(member, "..", "founded.json"), []byte("{"), 0o600)
		}, "of this member's data, remove the file"},
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
		"the length of a record in the log is not right": {func(t *testing.T, member string) error {
			return inLog(t, member, func(text []byte) {
				records := recordsOf(text)
				text[records[len(records)/2]+3] ^= 0x10
			})
		}, "no write-ahead log that reaches as far"},
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
		}, "etcd gives up: failed to unmarshal mvccpb.KeyValue"},
		"a page of the database is damaged": {func(_ *testing.T, member string) error {
			text, err := os.ReadFile(filepath.Join(member, "snap", "db"))
			if err != nil {
				return err
			}
			const pageSize, root = 4096, 16 + 16 // where a description of the database, in page 0 and 1, names the page of its root
			for page := range 2 {
				at := int(binary.LittleEndian.Uint64(text[page*pageSize+root:])) * pageSize
				clear(text[at : at+pageSize])
			}
			return os.WriteFile(filepath.Join(member, "snap", "db"), text, 0o600)
		}, "is damaged: "},
		"a bit of the log is flipped": {func(t *testing.T, member string) error {
			return inLog(t, member, func(text []byte) { text[bytes.Index(text, []byte("http://127.0.0.1"))] ^= 0x10 })
		}, "crc mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := stopped(t)
			if err := c.damage(t, filepath.Join(cfg.Dir, "member")); err != nil {
				t.Fatal(err)
			}
			if s, err := embedded.Start(within(time.Second), cfg); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v", s, err)
			}
		})
	}
}

// A follower may apply an entry before that is in its log: where it loses its power then, it has the entry from the others.
func TestALogThatEndsEarlierIsRefusedOfTheOnlyMemberOnly(t *testing.T) {
	t.Parallel()
	cfg := stopped(t)
	member := filepath.Join(cfg.Dir, "member")
	err := inLog(t, member, func(text []byte) {
		records := recordsOf(text)
		clear(text[records[len(records)-3]:])
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := embedded.DiscardUnborn(cfg.Dir); err == nil || !strings.Contains(err.Error(), "no write-ahead log that reaches as far") {
		t.Errorf("the only member: %v", err)
	}
	add := func(id, value string) {
		t.Helper()
		db, err := bbolt.Open(filepath.Join(member, "snap", "db"), 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(schema.Members.Name()).Put([]byte(id), []byte(value)) })
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	add("1", `{"id":1,"isLearner":true}`)
	if err := embedded.DiscardUnborn(cfg.Dir); err == nil {
		t.Error("beside a learner it is not refused")
	}
	add("2", `{"id":2}`)
	if err := embedded.DiscardUnborn(cfg.Dir); err != nil {
		t.Errorf("one of two: %v", err)
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

// stopped returns the configuration of a member that has run, and has data.
func stopped(t *testing.T) embedded.Config {
	t.Helper()
	cfg := growing(t, "a")
	s := start(t, within(time.Minute), cfg)
	testetcd.Ready(t, s)
	if err := put(connect(t, cfg.ClientURL), "1"); err != nil {
		t.Fatal(err)
	}
	testetcd.Stop(t, s)
	return cfg
}

// inLog changes the write-ahead log of a member.
func inLog(t *testing.T, member string, change func(text []byte)) error {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(member, "wal", "*.wal"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		return err
	}
	change(text)
	return os.WriteFile(logs[0], text, 0o600)
}

// recordsOf returns where the records of a log begin: each has its length, with that of its padding in the highest byte.
func recordsOf(text []byte) (begins []int) {
	for at := 0; at+8 <= len(text); {
		head := binary.LittleEndian.Uint64(text[at:])
		if head == 0 {
			break
		}
		begins = append(begins, at)
		at += 8 + int(head&(1<<56-1)) + int(head>>56&7)
	}
	return begins
}
