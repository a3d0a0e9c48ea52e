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

// firstSegment is the name of the file that a write-ahead log begins with.
const firstSegment = "0000000000000000-0000000000000000.wal"

// DiscardUnborn removes the data of a member that was killed while it was
// founded, or before the others had sent it anything: its write-ahead log exists, but holds neither an entry nor a vote.
// etcd would take the log for that of a founded member, find no members in it,
// itself included, and wait for a leader for ever.
//
// Removing it is safe because such a member has promised nothing to anybody.
// One entry or one vote is enough to keep the data, and so is whatever cannot be read
// from the beginning to the end: the log of a member that was sent the whole store has a
// gap before that, and what is damaged is for etcd to mend or to refuse.
//
// It is called before HasData, and fails where that could not tell, with fault.Invalid for data of another
// user, such as what root has restored: it is not to be taken for none. It fails, too, where another process runs a member.
func DiscardUnborn(dir string) error {
	if err := refuseTaken(dir); err != nil {
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
