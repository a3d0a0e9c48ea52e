package ledger

import (
	"context"
	"strings"
	"sync"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
)

// Ledger is the only way to write in a term: a cache of the prefixes that it owns, and a committer that runs
// plans on the cache and commits them in groups.
//
// The cache follows the store: this ledger's commits are applied at once, writes of others (an agent's operational
// state, an operator's repair) arrive by watch. Until they arrive, the guards of a transaction detect them.
//
// One watch is for all prefixes, and for the journals and locks: an
// event of any of these tells that everything before it has arrived.
//
// It is what callers hold, from any goroutine; what only one goroutine may use is in committer and preparer.
type Ledger struct{ *shared }

// root is the common prefix of everything that is stored.
const root = "/contiv.io/"

// Config configures a ledger.
type Config struct {
	Owned    []string // prefixes below /contiv.io/, each ending in a slash
	Indexes  []Index  // for Reader.Search
	Observer Observer // is called for each commit; may be nil

	// Admit is called for each plan that leaves more keys than it found; its error refuses the plan. Nil: all are
	// admitted. A store that is nearly full refuses these plans, so that the remaining room is left for deletions.
	Admit func() error
	// Derive runs after each plan that has written something, as a part of it: it writes what follows from the
	// plan's changes (Tx.Changes). Nil: none.
	Derive func(tx *Tx) error
	// Order returns the place of a key's change among those of a large plan, the lowest first; before and after
	// are its values, nil for none. Changes at one place keep the order of the plan. Those with together are
	// stored in one transaction, or in as few as the store accepts. Nil: all have the same place.
	Order func(key string, before, after []byte) (place int, together bool)
	// Standby has followed the same prefixes with the same indexes; the
	// ledger takes its state over and stops it. Nil: the state is listed.
	Standby *Standby
}

// Open completes what earlier terms have left, reads the prefixes at
// one revision and starts the committer, which ends with the term.
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
	foreign := make(chan mirror.Batch)
	l := &Ledger{&shared{
		term: term, db: db, log: log, corrupt: newCorruption(log), decoded: ofViews{all: ofPlan{}},
		owned: cfg.Owned, observer: cfg.Observer, admit: cfg.Admit, derive: cfg.Derive, journal: journalOf(term),
		mirror: mirror.NewPart(db, root, prefixes(cfg.Owned).contain, deliver(foreign, term)),
		small:  newQueue(), large: newQueue(), asks: make(chan func(*committer)),
	}}
	c := &committer{
		shared: l.shared, indexes: cfg.Indexes, foreign: foreign, deleted: map[string]int64{},
		due: notify.New(), patience: awaitOthers, pace: retry.NewPacer(objdb.RetryFirst, objdb.RetryMost),
	}
	if err := c.begin(ctx, cfg.Standby); err != nil {
		return nil, err
	}
	p := &preparer{shared: l.shared, order: cfg.Order}
	if !term.Go(func() { run(c, p) }) {
		return nil, term.Ended()
	}
	return l, nil
}

// run runs the goroutines of a ledger until the term ends.
func run(c *committer, p *preparer) {
	var others sync.WaitGroup
	others.Go(func() { c.mirror.Follow(c.term.Context()) })
	others.Go(p.run)
	defer others.Wait()
	c.run()
}

// Preview runs a plan on the committed state and discards its writes. Like View it neither waits nor makes
// others wait. Its result is valid if the term is still trusted.
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

// View calls read with the committed state. It neither waits nor makes others wait.
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

// Update runs a plan and commits its writes. It returns the revision of the commit, or, if the plan changed
// nothing, a revision of the state that it saw; then the term has to be trusted, as the store is not asked.
//
// A plan must be a function of what it reads from tx and of its arguments: it runs again if others write in
// between. If it returns an error, nothing of it is written and Update returns that error. If ctx ends before
// the plan runs, it never runs; once it has run, Update waits for the outcome, which Term.Commit finds out
// within twice the request timeout. An error of kind Unavailable whose message says "unknown outcome" leaves
// open whether it was committed.
//
// Everything is one transaction, except for a plan that reads and writes more than the store accepts in one
// (some hundred keys, 1 MiB), which is committed as UpdateLarge does.
func (l *Ledger) Update(ctx context.Context, plan func(tx *Tx) error) (rev int64, err error) {
	return l.submit(ctx, l.small, plan)
}

// UpdateLarge is Update for a plan that probably does not fit into one transaction. It runs concurrently with
// other plans instead of making them wait, is cancelled when ctx ends before it is committed, and is committed
// by a journal: as a whole even if this process ends in the middle. Readers of the ledger see all of it at
// once; followers of the store see its writes arrive one transaction after the other, in the order of
// Config.Order and, within that, of the plan.
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
