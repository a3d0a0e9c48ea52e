package embedded

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

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

// completeRestored writes down the members of a cluster that etcdctl before 3.5 has restored from a backup.
//
// A restored cluster has new member ids. The write-ahead log of each restored member begins with them, followed by a
// snapshot of just these entries, which no running member makes. Such an etcdctl leaves the ids of the backup in the
// database. etcd since 3.6 takes its members from there: it would look for members that do not exist, and wait for a
// quorum for ever. Newer tools, such as etcdutl, write them to both places.
func completeRestored(dir string) error {
	log := filepath.Join(dir, "member", "wal")
	segments, err := filepath.Glob(filepath.Join(log, "*.wal"))
	if err != nil {
		return fault.New(fault.Internal, "etcd data directory %s: %w", dir, err)
	}
	snapshots, err := filepath.Glob(filepath.Join(dir, "member", "snap", "*.snap"))
	if err != nil {
		return fault.New(fault.Internal, "etcd data directory %s: %w", dir, err)
	}
	if len(segments) != 1 || filepath.Base(segments[0]) != firstSegment || len(snapshots) != 1 {
		return nil
	}
	members, term := restoredMembers(log)
	if len(members) == 0 || filepath.Base(snapshots[0]) != fmt.Sprintf("%016x-%016x.snap", term, len(members)) {
		return nil
	}
	db := backend.NewDefaultBackend(zap.NewNop(), filepath.Join(dir, "member", "snap", "db"))
	defer func() { _ = db.Close() }() // what it wrote is on disk, or it has ended the process
	written := schema.NewMembershipBackend(zap.NewNop(), db)
	known, _ := written.MustReadMembersFromBackend()
	if maps.EqualFunc(known, members, func(*membership.Member, *membership.Member) bool { return true }) {
		return nil
	}
	if err := written.TrimMembershipFromBackend(); err != nil {
		return fault.New(fault.Unavailable, "etcd data directory %s: members of before the restoration: %w", dir, err)
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		written.MustSaveMemberToBackend(members[id])
	}
	db.ForceCommit()
	return nil
}

// restoredMembers returns the members with which a write-ahead log begins, and their term, if it has nothing else.
func restoredMembers(log string) (members map[types.ID]*membership.Member, term uint64) {
	w, err := wal.OpenForRead(zap.NewNop(), log, &walpb.Snapshot{})
	if err != nil {
		return nil, 0
	}
	defer func() { _ = w.Close() }() // as in DiscardUnborn
	_, _, entries, err := w.ReadAll()
	if err != nil {
		return nil, 0 // damaged: etcd repairs or refuses it
	}
	members = map[types.ID]*membership.Member{}
	for i, entry := range entries {
		var change raftpb.ConfChange
		var m membership.Member
		if entry.GetType() != raftpb.EntryConfChange || entry.GetIndex() != uint64(i+1) ||
			proto.Unmarshal(entry.GetData(), &change) != nil || change.GetType() != raftpb.ConfChangeAddNode ||
			json.Unmarshal(change.GetContext(), &m) != nil || uint64(m.ID) != change.GetNodeId() {
			return nil, 0
		}
		members[m.ID], term = &m, entry.GetTerm()
	}
	if len(members) != len(entries) {
		return nil, 0
	}
	return members, term
}
