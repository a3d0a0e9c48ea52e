package ledger

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/utils/fault"
)

// handOver is how long a standby may take to receive the writes before a term; after that, the store is listed.
const handOver = time.Second

// Standby has the state that a ledger begins with, followed while another process leads, so that a term need
// not begin with a listing of everything.
//
// It has one watch for everything: the lock is below the same root, so when the event of winning it arrives,
// everything that was written before has arrived as well.
type Standby struct {
	log    *logrus.Entry
	tree   *tree          // owned by the mirror until that has stopped
	mirror *mirror.Mirror // nil after the tree was handed over
	stop   context.CancelFunc
	done   chan struct{} // closed when the mirror has stopped

	handOver time.Duration // how long take waits
}

// Follow starts to follow the state of a ledger with this configuration,
// until Stop, the end of ctx, or until a ledger is opened with it.
func Follow(ctx context.Context, db *objdb.DB, cfg Config) *Standby {
	ctx, stop := context.WithCancel(ctx)
	s := &Standby{log: db.Log(), tree: newTree(cfg.Indexes), stop: stop, done: make(chan struct{}), handOver: handOver}
	m := mirror.NewPart(db, root, prefixes(cfg.Owned).contain, s.absorb)
	s.mirror = m
	go func() {
		defer close(s.done)
		m.Follow(ctx)
	}()
	return s
}

// Stop returns when nothing is followed any more. It may be called again.
func (s *Standby) Stop() {
	s.stop()
	<-s.done
}

// absorb applies changes to the tree, including those of a rewound store.
func (s *Standby) absorb(b mirror.Batch) {
	for _, e := range b.Events {
		if e.Value == nil {
			s.tree.Delete(record{key: e.Key})
		} else {
			s.tree.ReplaceOrInsert(record{key: e.Key, value: e.Value, rev: e.ModRevision})
		}
	}
	if b.Snapshot {
		s.log.WithField("keys", s.tree.Len()).Info("standby has read the store")
	}
}

// take stops the standby and returns its tree and the revision of its state. That is not before rev, which must
// be of a write below root. After an error the state has to be listed.
func (s *Standby) take(ctx context.Context, rev int64) (*tree, int64, error) {
	err := s.await(ctx, rev)
	s.Stop()
	t, m := s.tree, s.mirror
	s.tree, s.mirror = nil, nil // so that it can be freed
	if err != nil {
		return nil, 0, err
	}
	return t, m.Revision(), nil
}

func (s *Standby) await(ctx context.Context, rev int64) error {
	if s.mirror == nil || !s.mirror.Synced() {
		return fault.New(fault.Unavailable, "standby: has not read the store yet")
	}
	ctx, cancel := context.WithTimeout(ctx, s.handOver)
	defer cancel()
	return s.mirror.WaitChange(ctx, rev)
}
