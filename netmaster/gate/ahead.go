package gate

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/time/rate"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
)

// Before the gate reads up to a revision that a node names, it asks the store whether it has that revision: for a
// future revision, it would read the whole state again and again. It asks for all nodes together, and not often.
const (
	changeTime = 50 * time.Millisecond // how long a change of the store mostly takes to arrive here
	lookEvery  = 2 * time.Second
)

// present is the revision of the store in its last answer.
type present struct {
	db   *objdb.DB
	pace *rate.Limiter
	turn chan struct{} // held while asking, or reading the answer

	asked    time.Time
	history  int // of the store
	revision int64
}

func newPresent(db *objdb.DB) *present {
	return &present{db: db, pace: rate.NewLimiter(rate.Every(lookEvery), 1), turn: make(chan struct{}, 1)}
}

// has reports whether the store has a revision. A negative answer is
// newer than the call, and may have been given to another caller.
func (p *present) has(ctx context.Context, rev int64) (bool, error) {
	called := time.Now()
	if err := occupy(ctx, p.turn); err != nil {
		return false, err
	}
	defer func() { <-p.turn }()
	if known := p.history == p.db.Standing().History && p.revision >= rev; known || p.asked.After(called) {
		return p.revision >= rev, nil
	}
	if err := p.pace.Wait(ctx); err != nil {
		return false, err
	}
	asked, history := time.Now(), p.db.Standing().History
	revision, err := p.ask(ctx)
	if err != nil {
		return false, err
	}
	p.asked, p.history, p.revision = asked, history, revision
	return p.revision >= rev, nil
}

// ask asks the store for its revision.
func (p *present) ask(ctx context.Context) (int64, error) {
	wire, err := p.db.Wire(ctx)
	if err != nil {
		return 0, err
	}
	answer, err := wire.KV.Range(ctx, &pb.RangeRequest{Key: []byte(mastercfg.Root), CountOnly: true}) // a single key, which is never written
	if err != nil {
		return 0, err
	}
	return answer.Header.Revision, nil
}

// waitForRevision is inStep for a revision that a node names. It
// does not wait for a revision that the store does not have yet.
func (g *Gate) waitForRevision(ctx context.Context, rev int64) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	soon, end := context.WithTimeout(ctx, changeTime)
	defer end()
	if g.mirror.WaitChange(soon, rev) == nil {
		return nil
	}
	switch has, err := g.present.has(ctx, rev); {
	case err != nil:
		return unavailable("it is not known how far the store has come: %v", err)
	case !has:
		return unavailable("the store has no revision %d yet", rev)
	}
	return g.inStep(ctx, rev)
}
