package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"

	"github.com/contiv/netplugin/utils/fault"
)

// firstSegment is the name of the first file of a write-ahead log.
const firstSegment = "0000000000000000-0000000000000000.wal"

// DiscardUnborn removes the data of a member that was killed while it was founded, or before the others had
// sent it anything: its write-ahead log exists, but has neither an entry nor a vote. etcd would take the log
// for that of a founded member, find no members in it, not even itself, and wait for a leader for ever.
//
// Removing it is safe because such a member has promised nothing. One entry or one vote is enough to keep the
// data, as is any part that cannot be read from start to end: the log of a member that has received the whole
// store has a gap before that, and damaged data is for etcd to repair or to refuse.
//
// It is called before HasData, and fails where that could not decide, with fault.Invalid for data of another
// user, such as data that root has restored: it must not count as missing. It
// fails, too, while another process runs a member there, and for damaged data.
func DiscardUnborn(dir string) error {
	if err := refuseTaken(dir); err != nil {
		return err
	}
	if err := refuseDamaged(dir); err != nil {
		return err
	}
	log := filepath.Join(dir, "member", "wal")
	switch _, err := os.ReadDir(log); {
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Invalid, "etcd data directory: %w; it has to belong to the user that netmaster runs as, with all that is in it", err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Unavailable, "etcd data directory: %w", err)
	}
	segments, err := filepath.Glob(filepath.Join(log, "*.wal"))
	if err != nil {
		return fault.New(fault.Internal, "etcd data directory %s: %w", dir, err)
	}
	if len(segments) != 1 || filepath.Base(segments[0]) != firstSegment {
		return nil
	}
	w, err := wal.OpenForRead(zap.NewNop(), log, &walpb.Snapshot{})
	if err != nil {
		return nil
	}
	// The error is that of a directory handle that a reader does not have.
	defer func() { _ = w.Close() }()
	_, vote, entries, err := w.ReadAll()
	if err != nil || len(entries) > 0 || vote.GetTerm() > 0 {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(dir, "member")); err != nil {
		return fault.New(fault.Unavailable, "etcd data directory: %w", err)
	}
	return nil
}
