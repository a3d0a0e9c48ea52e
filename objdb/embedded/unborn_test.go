package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// writeLog writes the write-ahead log of a member.
func writeLog(t *testing.T, dir string, snapshot *walpb.Snapshot, state *raftpb.HardState, entries ...*raftpb.Entry) {
	t.Helper()
	path := filepath.Join(dir, "member", "wal")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := wal.Create(zap.NewNop(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if snapshot != nil {
		if err := w.SaveSnapshot(snapshot); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Save(state, entries); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func entry(term, index uint64) *raftpb.Entry { return &raftpb.Entry{Term: &term, Index: &index} }

func vote(term, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: &term, Commit: &commit}
}

// A member that was too far behind receives the whole store: its log then does not continue from its previous
// entries.
func TestOnlyAMemberWithoutAVoteAndAnEntryIsUnborn(t *testing.T) {
	term, sent := uint64(2), uint64(5000)
	snapshot := &walpb.Snapshot{Index: &sent, Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{1}}}
	for name, c := range map[string]struct {
		write func(dir string)
		keeps bool
	}{
		"nothing yet":                {func(string) {}, false},
		"no entry":                   {func(dir string) { writeLog(t, dir, nil, vote(0, 0)) }, false},
		"a vote":                     {func(dir string) { writeLog(t, dir, nil, vote(1, 0)) }, true},
		"entries":                    {func(dir string) { writeLog(t, dir, nil, vote(2, 1), entry(1, 1), entry(2, 2)) }, true},
		"sent the store":             {func(dir string) { writeLog(t, dir, snapshot, vote(2, 5000)) }, true},
		"sent the store, and beyond": {func(dir string) { writeLog(t, dir, snapshot, vote(2, 5000), entry(2, 5001)) }, true},
		"sent the store later": {func(dir string) {
			writeLog(t, dir, nil, vote(2, 1), entry(1, 1), entry(2, 5001))
		}, true},
		"damaged": {func(dir string) {
			writeLog(t, dir, nil, vote(2, 1), entry(1, 1))
			path := filepath.Join(dir, "member", "wal", firstSegment)
			if err := os.WriteFile(path, []byte("not a log, but something long enough to be read as one"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.write(dir)
			if err := DiscardUnborn(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "member")); (err == nil) != c.keeps {
				t.Errorf("the data: %v; want it kept: %v", err, c.keeps)
			}
		})
	}
}

// Data restored by root, which netmaster cannot read, does not count as no data.
func TestDataOfAnotherUserIsNotTakenForNone(t *testing.T) {
	testkit.NeedsMachine(t)
	dir := t.TempDir()
	writeLog(t, dir, nil, vote(2, 1), entry(1, 1))
	runtime.LockOSThread() // the file system user is the thread's
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	err := DiscardUnborn(dir)
	if err := unix.Setfsuid(0); err != nil {
		t.Fatal(err)
	}
	if !fault.Is(err, fault.Invalid) || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
}
