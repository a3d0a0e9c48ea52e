package embedded

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"

	"github.com/contiv/netplugin/utils/fault"
)

// refuseDamaged fails for data that etcd does not notice to be damaged: a database that was cut off, which ends the
// process with a fault in memory, and one whose write-ahead log is gone or, for the only member, ends earlier, as etcd cuts
// off a log where the length of a record is not right: with such a log a member waits for ever. One of several has from the
// others what its log lacks: it may apply an entry before that is in its log, and lose its power then.
func refuseDamaged(dir string) error {
	path := filepath.Join(dir, "member", "snap", "db")
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Unavailable, "etcd data directory: %w", ofShortage(err))
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
	if is.Size() == 0 {
		return nil
	}
	db, err := describe(path)
	if err != nil {
		return fault.New(fault.Unavailable, "etcd data directory %s: %s is damaged: %w; add the member again without data, or restore a backup", dir, path, err)
	}
	log := filepath.Join(dir, "member", "wal")
	files, err := os.ReadDir(log)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Unavailable, "etcd data directory: %w", ofShortage(err))
	}
	hasLog := slices.ContainsFunc(files, func(f fs.DirEntry) bool { return filepath.Ext(f.Name()) == ".wal" })
	if db.applied == 0 || hasLog && (db.voters > 1 || reaches(log, db.applied)) {
		return nil
	}
	return fault.New(fault.Unavailable, "etcd data directory %s: it has a database, and no write-ahead log that reaches as far: "+
		"add the member again without data, or restore a backup, or %s itself", dir, path)
}

// reaches reports whether a write-ahead log has what a database has applied last. What cannot be read is for etcd to refuse.
func reaches(dir string, applied uint64) bool {
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

// database is what a member has written to its database about itself.
type database struct {
	applied uint64 // index of the last applied entry; 0: none, as if the member was killed while it was founded; etcd goes on with it
	voters  int    // members that are no learners
}

// describe reads the database of a member that does not run. The error is that of a page that is not what it should be, of
// which etcd would panic in a goroutine of its own. Of what else cannot be read, etcd says why: then the result is zero.
func describe(path string) (found database, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			found, err = database{}, fmt.Errorf("%v", cause)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return database{}, nil
	}
	defer func() { _ = db.Close() }() // only read
	err = db.View(func(tx *bbolt.Tx) error {
		meta, members := tx.Bucket(schema.Meta.Name()), tx.Bucket(schema.Members.Name())
		if meta == nil || members == nil {
			return nil
		}
		if value := meta.Get(schema.MetaConsistentIndexKeyName); len(value) == 8 {
			found.applied = binary.BigEndian.Uint64(value)
		}
		return members.ForEach(func(_, value []byte) error {
			var m membership.Member
			if err := json.Unmarshal(value, &m); err != nil {
				return err
			}
			if !m.IsLearner {
				found.voters++
			}
			return nil
		})
	})
	if err != nil {
		return database{}, nil
	}
	return found, nil
}
