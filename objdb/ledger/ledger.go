package ledger

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
)

// Ledger is the only way a term writes: a cache of the prefixes it owns, and a
// committer that runs plans against it and commits them in groups.
//
// The cache follows the store: what this ledger commits is in it at once, what
// others write (an agent's run-time state, an operator's repair) arrives by
// watch. Until it has arrived, the guards of a transaction find it out.
//
// One watch is for all prefixes, and for the journals and locks beside them: the
// event of any of these tells that everything before it has arrived.
type Ledger struct {
	term     *objdb.Term
	maxOps   int // in one transaction; the committer may lower it
	db       *objdb.DB
	log      *logrus.Entry
	owned    prefixes
	indexes  []Index
	observer Observer
	admit    func() error
	derive   func(*Tx) error
	order    func(key string, before, after []byte) (place int, together bool)
	corrupt  *corruption
	decoded  ofViews
	mirror   *mirror.Mirror

	state   atomic.Pointer[tree] // committed; never changed once stored
	foreign chan mirror.Batch    // from the mirror to the committer
	small   *queue               // to the committer
	large   *queue               // to the goroutine that prepares large plans
	asks    chan func()          // what the committer is asked to run
	journal journal

	attempts int // of large plans; belongs to the goroutine that prepares them

	// The rest belongs to the committer.
	horizon
	own      int64            // revision of the last own commit
	loaded   int64            // revision of the last listing: older events are in it
	deleted  map[string]int64 // own deletions whose event has not come back yet
	stale    bool             // the state may not be the store's: it is read again before the next plan
	patience time.Duration    // for what others wrote to come by watch
	held     []*submission    // wait for a large plan
	decided  *decided         // large plan that is being stored; nil: none
	since    *since           // what has changed since a large plan ran; nil: none does
	reserved *footprint       // what others do not change while a large plan runs; nil: they change all
	alone    bool             // a large plan has the ledger for itself
	due      notify.Signal    // held plans or the decided one may go on, or the state is to be read again
	later    <-chan time.Time // the same, after a failure
	pace     *retry.Pacer     // of those tries
}

// root is above everything that is stored.
const root = "/contiv.io/"

// Config says what a ledger owns.
type Config struct {
	Owned    []string // prefixes below /contiv.io/, each ending in a slash
	Indexes  []Index  // for Reader.Search
	Observer Observer // told about each commit; may be nil

	// Admit is asked about each plan that leaves more keys than it found; its
	// error refuses the plan. Nil: all are admitted. A store that is nearly full
	// refuses these, so that what remains is there for deletions.
	Admit func() error
	// Derive is run behind each plan that has written something, as a part of it: it writes what follows from what the
	// plan has (Tx.Changes), whoever made it. Nil: nothing does.
	Derive func(tx *Tx) error
	// Order gives the change of a key its place among those of a large plan,
	// the lowest first; before and after are its values, nil for none. Those of
	// one place keep the order of the plan. Those that have to be seen together are
	// stored in one transaction, or in as few as the store takes. Nil: all have the
	// same place.
	Order func(key string, before, after []byte) (place int, together bool)
	// Standby has followed the same prefixes with the same indexes; the ledger
	// takes its state and stops it. Nil: the state is listed.
	Standby *Standby
}

// Open finishes what the terms before have left, reads the prefixes at one
// revision and starts the committer, which ends with the term.
func Open(ctx context.Context, term *objdb.Term, cfg Config) (*Ledger, error) {
	for _, p := range cfg.Owned {
		if err := objdb.CheckPrefix(p); err != nil {
			return nil, err
		}
	}
	if cfg.Observer == nil {
		cfg.Observer = unobserved{}
	}
	db := term.DB()
	log := db.Log().WithField("ledger", strings.Join(cfg.Owned, " "))
	l := &Ledger{
		term: term, db: db, log: log, owned: cfg.Owned, indexes: cfg.Indexes, observer: cfg.Observer, admit: cfg.Admit, derive: cfg.Derive, order: cfg.Order, corrupt: newCorruption(log), decoded: ofViews{all: ofPlan{}},
		foreign: make(chan mirror.Batch), deleted: map[string]int64{},
		small: newQueue(), large: newQueue(), asks: make(chan func()), journal: journalOf(term),
		due: notify.New(), patience: awaitOthers, pace: retry.NewPacer(objdb.RetryFirst, objdb.RetryMost),
	}
	var err error
	if l.maxOps, err = db.MaxOps(ctx); err != nil {
		return nil, err
	}
	written, err := l.recover(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.begin(ctx, cfg.Standby, max(term.Won(), written)); err != nil {
		return nil, err
	}
	l.mirror = mirror.NewPart(db, root, l.owned.contain, l.deliver)
	l.mirror.Seed(l.state.Load().keys(), l.loaded)
	if !term.Go(l.run) {
		return nil, term.Ended()
	}
	return l, nil
}

// Preview runs a plan on the committed state and forgets what it wrote. Like
// View it neither waits nor makes anybody wait. What the plan has found was so if
// the term is still trusted.
func (l *Ledger) Preview(ctx context.Context, plan func(tx *Tx) error) error {
	if l.term.Context().Err() != nil {
		return l.term.Ended()
	}
	g := newGroup(l.state.Load(), l.owned, l.corrupt)
	if err := newTx(ctx, g).run(plan); err != nil {
		return err
	}
	return l.term.Trusted()
}

// View calls read with the committed state. It neither waits nor makes anybody wait.
func (l *Ledger) View(read func(r Reader) error) error {
	if l.term.Context().Err() != nil {
		return l.term.Ended()
	}
	v := &view{tree: l.state.Load(), owned: l.owned, corrupt: l.corrupt, decoded: &l.decoded}
	if err := read(v); err != nil {
		return err
	}
	return v.fail
}

// Update runs a plan and commits what it wrote. It returns the revision of the
// commit, or, when the plan changed nothing, a revision at which that was so; then
// the term has to be trusted, as the store is not asked.
//
// A plan must be a function of what it reads from tx and of its arguments: it
// runs more than once when others write in between. If it returns an error,
// nothing of it is written and Update returns that error. When ctx ends before
// the plan ran it never runs; from then on Update waits for the outcome, which
// Term.Commit finds out within twice the request timeout. An error of kind Unavailable whose message
// says "unknown outcome" leaves open whether it happened.
//
// Everything is one transaction, except for a plan that reads and writes more
// than the store takes in one (some hundred keys, 1 MiB), which is committed as
// UpdateLarge does.
func (l *Ledger) Update(ctx context.Context, plan func(tx *Tx) error) (rev int64, err error) {
	return l.submit(ctx, l.small, plan)
}

// UpdateLarge is Update for a plan that probably does not fit into one
// transaction. It runs beside the others instead of keeping them waiting, is
// given up when ctx ends before it is decided, and is committed by way of a
// journal: as a whole even if this process ends in the middle. Readers of the
// ledger see all of it at once; those who follow the store see its writes arrive
// one transaction after the other, in the order of Config.Order and, within
// that, of the plan.
func (l *Ledger) UpdateLarge(ctx context.Context, plan func(tx *Tx) error) (rev int64, err error) {
	return l.submit(ctx, l.large, plan)
}

func (l *Ledger) submit(ctx context.Context, to *queue, plan func(tx *Tx) error) (rev int64, err error) {
	if ctx.Err() != nil {
		return 0, notStarted(ctx)
	}
	s := newSubmission(ctx, plan)
	if !to.put(s) {
		return 0, l.term.Ended()
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		if s.abandon() {
			return 0, notStarted(ctx)
		}
		<-s.done
	}
	return s.rev, s.err
}

func notStarted(ctx context.Context) error {
	return fault.New(fault.Unavailable, "update not started: %w", ctx.Err())
}
