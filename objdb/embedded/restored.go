package embedded

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/contiv/netplugin/utils/fault"
)

// restoredLog is the write-ahead log of a member that was restored from a backup and has not run yet. It has nothing
// but the members of the restored cluster, followed by a snapshot of these entries, which no running member makes.
type restoredLog struct {
	file    string
	is      etcdserverpb.Metadata
	state   *raftpb.HardState
	entries []*raftpb.Entry
	members map[types.ID]*membership.Member
}

// completeRestored does what the tools leave out that restore a member from a backup.
func completeRestored(dir string) (err error) {
	defer func() {
		if cause := recover(); cause != nil { // as in startEtcd
			err = fault.New(fault.Unavailable, "etcd data directory %s, restored from a backup: its database cannot be read: %v", dir, cause)
		}
	}()
	log := readRestored(dir)
	if log == nil {
		return nil
	}
	db := filepath.Join(dir, "member", "snap", "db")
	if err = log.nameCluster(db); err == nil { // first: it says what is wrong with the database
		err = log.writeMembers(db)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "etcd data directory %s, restored from a backup: %w", dir, err)
	}
	return nil
}

// readRestored returns nil for a member that was not restored, or has run since, and for data that cannot be read,
// which etcd repairs or refuses.
func readRestored(dir string) *restoredLog {
	segments, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(segments) != 1 || filepath.Base(segments[0]) != firstSegment {
		return nil
	}
	snapshots, err := filepath.Glob(filepath.Join(dir, "member", "snap", "*.snap"))
	if err != nil || len(snapshots) != 1 {
		return nil
	}
	w, err := wal.OpenForRead(zap.NewNop(), filepath.Dir(segments[0]), &walpb.Snapshot{})
	if err != nil {
		return nil
	}
	defer func() { _ = w.Close() }() // as in DiscardUnborn
	is, state, entries, err := w.ReadAll()
	log := &restoredLog{file: segments[0], state: state, entries: entries, members: map[types.ID]*membership.Member{}}
	if err != nil || proto.Unmarshal(is, &log.is) != nil || len(entries) == 0 || filepath.Base(snapshots[0]) != log.snapshotName() {
		return nil
	}
	for _, entry := range entries {
		var change raftpb.ConfChange
		var m membership.Member
		if entry.GetType() != raftpb.EntryConfChange || proto.Unmarshal(entry.GetData(), &change) != nil ||
			change.GetType() != raftpb.ConfChangeAddNode || json.Unmarshal(change.GetContext(), &m) != nil {
			return nil
		}
		log.members[m.ID] = &m
	}
	return log
}

// last returns where the log ends.
func (l *restoredLog) last() *raftpb.Entry { return l.entries[len(l.entries)-1] }

func (l *restoredLog) snapshotName() string {
	return fmt.Sprintf("%016x-%016x.snap", l.last().GetTerm(), l.last().GetIndex())
}

// writeMembers writes the members to the database. etcdctl before 3.5 leaves those of the backup there, which have other
// ids. etcd since 3.6 takes its members from there: it would look for members that do not exist, and wait for a quorum
// for ever.
func (l *restoredLog) writeMembers(path string) error {
	db := backend.NewDefaultBackend(zap.NewNop(), path)
	defer func() { _ = db.Close() }() // what it wrote is on disk, or it has ended the process
	written := schema.NewMembershipBackend(zap.NewNop(), db)
	if known, _ := written.MustReadMembersFromBackend(); maps.EqualFunc(known, l.members, func(_, _ *membership.Member) bool { return true }) {
		return nil
	}
	if err := written.TrimMembershipFromBackend(); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(l.members)) {
		written.MustSaveMemberToBackend(l.members[id])
	}
	db.ForceCommit()
	return nil
}

// nameCluster gives the cluster an id that follows from its members and from the backup. The tools take only members
// into account, so that members restored from different backups, or one beside others that were not, would believe
// each other although their data differs, and answer differently ever after. Members with different ids do not speak
// with each other.
func (l *restoredLog) nameCluster(path string) error {
	id, err := l.clusterID(path)
	if err != nil || id == l.is.GetClusterID() {
		return err
	}
	l.is.ClusterID = &id
	is, err := proto.Marshal(&l.is)
	if err != nil {
		return err
	}
	beside := filepath.Join(filepath.Dir(filepath.Dir(l.file)), "wal.named")
	if err := os.RemoveAll(beside); err != nil {
		return err
	}
	w, err := wal.Create(zap.NewNop(), beside, is)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(beside) }() // or at the next start
	defer func() { _ = w.Close() }()            // what was saved is on disk
	if err := w.Save(l.state, l.entries); err != nil {
		return err
	}
	index, term := l.last().GetIndex(), l.last().GetTerm()
	if err := w.SaveSnapshot(&walpb.Snapshot{Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: l.voters()}}); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(beside, firstSegment), l.file); err != nil {
		return err
	}
	folder, err := fileutil.OpenDir(filepath.Dir(l.file))
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	return fileutil.Fsync(folder)
}

// voters are in the order of the log, as in the snapshot.
func (l *restoredLog) voters() (ids []uint64) {
	for _, entry := range l.entries {
		var change raftpb.ConfChange
		if proto.Unmarshal(entry.GetData(), &change) == nil { // as it was read
			ids = append(ids, change.GetNodeId())
		}
	}
	return ids
}

// clusterID is a hash of the members and of the last change in the database.
func (l *restoredLog) clusterID(path string) (uint64, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }() // only read
	hash := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(l.members)) {
		_ = binary.Write(hash, binary.BigEndian, uint64(id)) // a hash takes everything
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if keys := tx.Bucket(schema.Key.Name()); keys != nil {
			revision, change := keys.Cursor().Last()
			hash.Write(revision)
			hash.Write(change)
		}
		return nil
	})
	return binary.BigEndian.Uint64(hash.Sum(nil)), err
}
