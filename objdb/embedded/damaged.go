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

	"github.com/contiv/netplugin/utils/fault"
)

// refuseDamaged fails for data that etcd does not notice to be damaged: a database that was cut off, which ends the
// process with a fault in memory, and one whose write-ahead log is gone, with which a member waits for ever.
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
	segments, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err == nil && len(segments) == 0 && is.Size() > 0 && hasRun(path) {
		return fault.New(fault.Unavailable, "etcd data directory %s: it has a database and no write-ahead log: "+
			"add the member again without data, or restore a backup, or %s itself", dir, path)
	}
	return nil
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

// hasRun reports whether a member has applied something to a database. One that was killed while it was founded has
// none of that, and etcd goes on with it.
func hasRun(path string) (has bool) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return false // etcd says why
	}
	defer func() { _ = db.Close() }() // only read
	err = db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(schema.Meta.Name())
		has = meta != nil && len(meta.Get(schema.MetaConsistentIndexKeyName)) > 0
		return nil
	})
	return has && err == nil
}
