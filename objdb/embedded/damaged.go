package embedded

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"

	"github.com/contiv/netplugin/utils/fault"
)

// refuseDamaged fails for data that etcd does not notice to be damaged: a database that was cut off, which ends the
// process with a fault in memory, and one whose write-ahead log is gone or, as etcd cuts off a log where the length of a
// record is not right, ends earlier: with such a log a member waits for ever.
func refuseDamaged(dir string) error {
	path := filepath.Join(dir, "member", "snap", "db")
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Unavailable, "etcd data directory: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	is, err := file.Stat()
	if err != nil {
		return fault.New(fault.Unavailable, "etcd data directory: %w", err)
	}
	if wants := extent(file); is.Size() < wants {
		return fault.New(fault.Unavailable, "etcd data directory %s: %s is damaged: it has %d of at least %d bytes; "+
			"add the member again without data, or restore a backup", dir, path, is.Size(), wants)
	}
	applied := appliedIndex(path)
	if is.Size() == 0 || applied == 0 || reaches(filepath.Join(dir, "member", "wal"), applied) {
		return nil
	}
	return fault.New(fault.Unavailable, "etcd data directory %s: it has a database, and no write-ahead log that reaches as far: "+
		"add the member again without data, or restore a backup, or %s itself", dir, path)
}

// reaches reports whether a write-ahead log has what a database has applied last. What cannot be read is for etcd to refuse.
func reaches(dir string, applied uint64) bool {
	if segments, err := filepath.Glob(filepath.Join(dir, "*.wal")); err != nil || len(segments) == 0 {
		return err != nil
	}
	// The entry, unless the member was sent the whole store up to there: then a snapshot record.
	for _, start := range []uint64{applied - 1, applied} {
		log, err := wal.OpenForRead(zap.NewNop(), dir, &walpb.Snapshot{Index: &start})
		if err != nil {
			return true
		}
		_, state, entries, err := log.ReadAll()
		_ = log.Close() // the error is that of a directory handle that a reader does not have
		switch missing := errors.Is(err, wal.ErrSnapshotNotFound); {
		case err != nil && !missing, start == applied && !missing:
			return true
		case len(entries) > 0, state.GetCommit() >= applied:
			return true
		}
	}
	return false
}

// The head of a page of bbolt, and what of it and of the description that follows in the first two pages is read here.
const (
	pageHead    = 16
	metaMagic   = 0xed0cdaed
	metaSize    = 64
	atPageSize  = 8  // uint32
	atPages     = 40 // uint64: how many pages there are
	atWriting   = 48 // uint64: number of the transaction; the higher one counts
	largestPage = 1 << 16
)

// extent returns how long a database is, by its newer description, or 0 if it has none that can be read, which etcd
// says itself. A file is made longer before its description says so.
func extent(file io.ReaderAt) (bytes int64) {
	var newest, size uint64
	at := int64(0)
	for range 2 {
		var meta [metaSize]byte
		if _, err := file.ReadAt(meta[:], at+pageHead); err != nil || binary.LittleEndian.Uint32(meta[:]) != metaMagic {
			break
		}
		page := uint64(binary.LittleEndian.Uint32(meta[atPageSize:]))
		if page == 0 || page > largestPage {
			break
		}
		if writing := binary.LittleEndian.Uint64(meta[atWriting:]); writing >= newest {
			newest, size = writing, page*binary.LittleEndian.Uint64(meta[atPages:])
		}
		at = int64(page)
	}
	return int64(size)
}

// appliedIndex returns the index of the last entry that a member has applied to a database. One that was killed while it
// was founded has none, 0, and etcd goes on with it.
func appliedIndex(path string) (index uint64) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return 0 // etcd says why
	}
	defer func() { _ = db.Close() }() // only read
	err = db.View(func(tx *bbolt.Tx) error {
		if meta := tx.Bucket(schema.Meta.Name()); meta != nil {
			if value := meta.Get(schema.MetaConsistentIndexKeyName); len(value) == 8 {
				index = binary.BigEndian.Uint64(value)
			}
		}
		return nil
	})
	if err != nil {
		return 0
	}
	return index
}
