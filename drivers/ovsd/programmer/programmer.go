package programmer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// baseKey owns the flows that do not depend on objects.
var baseKey = pipeline.Key{Kind: "base"}

// Programmer makes a switch match objects. Update and Sync may be called concurrently; all the rest is one
// goroutine, Run.
//
// It loops: take the callers' input, write one batch, answer those whose objects are in the switch now. A
// change that arrives while a large difference is being written is in the next batch but one.
type Programmer struct {
	config Config
	log    *logrus.Entry
	inbox  *inbox

	// What is wanted.
	compiler Compiler
	objects  map[pipeline.Key]pipeline.Object
	invalid  map[pipeline.Key]error
	replaced bool     // the agent has sent the complete objects
	known    []string // ids of the endpoints that exist, until the switch was compared with them; nil: unknown
	fixed    FixedPorts

	// What the switch has, and can.
	books    *books
	conn     connection
	auditor  *auditor
	can      Abilities
	sizes    sizes
	underlay underlay
	flusher  flusher

	// What it was sent, and answered.
	waiting    []*ticket
	refused    refusals
	silence    silence
	lastErr    error     // of the connection
	owes       time.Time // since when changes are pending and the switch has accepted none (stall.go); zero: none are
	unanswered bool      // it has not answered a change, and was not probed since
}

// New makes a programmer; Run starts it.
func New(config Config) *Programmer {
	return &Programmer{
		config:   config,
		log:      config.Log,
		inbox:    newInbox(),
		objects:  map[pipeline.Key]pipeline.Object{},
		invalid:  map[pipeline.Key]error{},
		books:    newBooks(cmp.Or(config.Chunk, defaultChunk)),
		auditor:  newAuditor(config.AuditInterval, config.Log),
		underlay: underlay{answers: make(chan mtu, 1)},
		flusher:  flusher{log: config.Log},
		refused:  refusals{},
	}
}

// Update changes the wanted objects and returns at once.
func (p *Programmer) Update(c drivers.Change) { p.inbox.put(c) }

// Sync waits until the given objects, or all, are in the switch in the state of the earlier changes. The error
// says which are not and why; it is of kind Unavailable if that is unknown when ctx is done.
func (p *Programmer) Sync(ctx context.Context, keys ...pipeline.Key) error {
	ticket := p.inbox.wait(keys...)
	defer p.inbox.leave(ticket)
	select {
	case err := <-ticket.done:
		return err
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "bridge %s: flows are not in the switch yet: %w", p.config.Bridge, context.Cause(ctx))
	}
}

// Settled reports whether the last report covers all changes.
func (p *Programmer) Settled() bool { return p.inbox.settled() }

// Wake makes the programmer call its functions again: ports may have changed, or whether another driver has the bridge.
func (p *Programmer) Wake() { p.inbox.news.Send() }

// Run works until ctx is done. It runs once.
func (p *Programmer) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer p.auditor.workers.Wait()
	defer stop()
	p.auditor.restart() // its first interval begins here
	for {
		p.take()
		p.noteOutstanding(time.Now())
		p.config.Report(p.progress()) // the switch may not answer the following
		more := p.work(ctx)
		p.noteOutstanding(time.Now())
		p.config.Report(p.progress()) // first, so that when Sync returns the report is up to date
		p.inbox.noteReported()
		p.answer(more)
		if err := p.sleep(ctx, more); err != nil {
			return err
		}
	}
}

// sleep returns when there may be something to do; at once if there is more.
func (p *Programmer) sleep(ctx context.Context, more bool) error {
	var retry <-chan time.Time
	if when, ok := p.refused.nextTry(); ok && p.conn.isRead() {
		timer := time.NewTimer(time.Until(when))
		defer timer.Stop()
		retry = timer.C
	}
	var now chan struct{}
	if more {
		now = make(chan struct{})
		close(now)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-now:
	case <-p.inbox.news:
	case <-retry:
		p.books.release()
	case <-p.flusher.again:
		p.flusher.repeat(p.books)
	case <-p.flusher.soon:
		p.flusher.soon = nil
		if p.conn.isRead() { // otherwise flushes are found again when the switch is read
			p.flusher.step(ctx, p.conn.sw, p.books)
		}
	case <-p.config.FlowsLost:
		p.conn.loaded = false
	case sw := <-p.config.Connections:
		p.connect(sw)
	case <-p.conn.done():
		p.log.Warn("switch connection lost")
		p.conn.sw = nil
	case <-p.auditor.timer.C:
		p.config.AuditDue()
		p.readMTU(ctx)
		if p.conn.isRead() && p.replaced {
			p.auditor.begin(ctx, p.conn.sw, p.books)
		} else {
			p.auditor.restart()
		}
	case m := <-p.underlay.answers:
		p.applyMTU(m)
	case s := <-p.auditor.results:
		if p.auditor.end(s, p.conn.sw, p.books) {
			p.conn.others = p.auditor.others
		}
	}
	return nil
}

// connect switches to a new connection; the state of its switch is unknown.
func (p *Programmer) connect(sw Switch) {
	p.conn.sw, p.conn.loaded, p.flusher.cannot = sw, false, false
	p.config.Connected()
}

// take applies the callers' input.
func (p *Programmer) take() {
	var changes []drivers.Change
	changes, p.waiting = p.inbox.take()
	p.updatePortNumbers()
	for _, c := range changes {
		p.accept(c)
	}
	for owner, err := range p.books.overflows.settle() {
		p.problem(owner, err)
	}
	p.settleRefused()
	if p.books.learned.ended && p.auditor.scheduleNext() {
		p.books.learned.ended = false
	}
}

// settleRefused drops refusals that do not matter any more: after another attempt, other objects in their
// place, or because the difference is gone.
func (p *Programmer) settleRefused() {
	maps.DeleteFunc(p.refused, func(owner pipeline.Key, _ *refusal) bool { return !p.books.waits(owner) })
	p.updateEpoch()
}

// work does one piece of work, and reports whether there is more.
func (p *Programmer) work(ctx context.Context) (more bool) {
	switch {
	case p.config.Excluded():
		p.conn.loaded = false // the other driver writes what it wants
		return false
	case p.conn.sw == nil:
		return false
	case !p.conn.loaded:
		return p.load(ctx)
	// A switch full of flows of another run, or of another version, serves its endpoints until the
	// complete objects are known.
	case !p.replaced:
		return false
	case !p.conn.compared:
		p.conn.compared = true
		p.flushUnknown()
		p.books.flushFormer()
		return true
	case p.books.unfinished():
		p.write(ctx)
		return p.conn.sw != nil && (p.books.unfinished() || p.auditor.rest > 0)
	case p.books.leaving:
		p.flusher.schedule(p.books) // of endpoints that had no flows
	}
	return p.auditor.findLost(p.books) || p.books.unfinished()
}

// load reads the state of the switch.
func (p *Programmer) load(ctx context.Context) (loaded bool) {
	p.books.forget()
	p.auditor.restart()
	ours, others, err := 0, 0, p.detectAbilities(ctx)
	if err == nil {
		ours, others, err = p.books.load(ctx, p.noted())
	}
	if err != nil {
		p.giveUp(fmt.Errorf("flows in the switch: %w", err))
		return false
	}
	p.conn.loaded, p.conn.compared, p.conn.empty, p.conn.others = true, false, ours == 0, others
	return true
}

// write writes the next batch.
func (p *Programmer) write(ctx context.Context) {
	if err := p.probeAfterTimeout(ctx); err != nil {
		p.giveUp(err)
		return
	}
	now := time.Now()
	var urgent []pipeline.Key
	for _, t := range p.waiting {
		for _, key := range t.keys {
			if !p.refused.blocked(key, now) {
				urgent = append(urgent, key)
			}
		}
	}
	batch := p.books.next(p.books.inTurn(urgent), func(owner pipeline.Key) bool { return p.refused.blocked(owner, now) })
	waiting := p.books.pending()
	no, err := batch.write(ctx, p.noted())
	for owner, fresh := range p.refused.note(no, now) {
		p.problem(owner, fresh.err)
	}
	switch taken := p.books.pending() < waiting; {
	case taken:
		p.noteAccepted()
	case err == nil && len(no) > 0:
		if none := p.probeChange(ctx); none == nil {
			p.noteAccepted()
		} else {
			p.log.WithError(none).Debug("the switch takes no change at all")
		}
	}
	for _, owner := range batch.blocked {
		p.refused[owner].judges = true
	}
	p.settleRefused()
	if err != nil {
		p.unanswered, p.silence = true, p.silence.after(batch.bundle, err)
		p.giveUp(err)
		return
	}
	p.lastErr = nil
	if len(batch.bundle) > 0 {
		p.books.larger()
		p.silence = p.silence.unless(batch.bundle)
	}
	p.flusher.schedule(p.books)
}

// giveUp ends a connection on which the switch does not answer; the client makes a new one, and the
// state of the switch is read again.
func (p *Programmer) giveUp(err error) {
	p.lastErr = err
	p.log.WithError(err).Warn("switch does not answer")
	p.conn.sw.Close()
	p.conn.sw = nil
}

// answer answers the calls of Sync whose objects are in the switch, or will not be for a reason. more means
// that not everything has been tried yet.
func (p *Programmer) answer(more bool) {
	if !p.conn.isRead() || !p.replaced {
		return
	}
	for _, t := range p.waiting {
		keys := t.keys
		switch {
		case len(keys) > 0 && p.decided(keys):
		case more:
			continue
		case len(keys) == 0:
			keys = slices.Concat(slices.Collect(maps.Keys(p.invalid)), slices.Collect(maps.Keys(p.refused)), slices.Collect(maps.Keys(p.books.overflows.out)))
		}
		var problems []error
		for _, key := range keys {
			if err := p.problemOf(key); err != nil {
				problems = append(problems, err)
			}
		}
		p.inbox.answer(t, errors.Join(problems...))
	}
	p.waiting = nil
}

// decided reports whether all of the objects exist, and are in the switch or refused.
func (p *Programmer) decided(keys []pipeline.Key) bool {
	return !slices.ContainsFunc(keys, func(key pipeline.Key) bool {
		_, wanted := p.objects[key]
		return !wanted || !p.books.settled(key) && p.refusalOf(key) == nil
	})
}

// problemOf returns why an object is not in the switch.
func (p *Programmer) problemOf(key pipeline.Key) error {
	err := cmp.Or(p.invalid[key], p.books.overflows.out[key])
	if r := p.refusalOf(key); err == nil && r != nil {
		err = r.err
	}
	switch {
	case err == nil:
		return nil
	case key.Kind == kindUnwanted:
		return fault.New(fault.KindOf(err), "what nobody wants cannot be removed: %w", err)
	case key.Kind == kindShared:
		return fault.New(fault.KindOf(err), "%s: %w", p.books.sharers(key.ID), err)
	}
	return fault.New(fault.KindOf(err), "%s %s: %w", key.Kind, key.ID, err)
}

// problem logs why the switch does not have what it should.
func (p *Programmer) problem(owner pipeline.Key, err error) {
	object := owner.ID
	switch owner.Kind {
	case kindUnwanted:
		object = p.books.describe(owner.ID)
	case kindShared:
		object = p.books.sharers(owner.ID)
	}
	p.log.WithError(err).WithFields(logrus.Fields{"kind": owner.Kind, "object": object}).Error("the switch is not as it should be")
}

func (p *Programmer) progress() Progress {
	s := Progress{
		Connected: p.conn.sw != nil, Owes: p.owes, Lost: p.conn.isRead() && p.conn.empty && !p.replaced,
		Flows: p.books.flows.wanted, Others: p.conn.others, Conflicts: p.books.conflicts.tell(p.books.flows), Err: p.lastErr,
	}
	for key := range p.refused {
		s.Err = p.problemOf(key)
		break // one is reported
	}
	for _, all := range []map[pipeline.Key]error{p.books.overflows.out, p.invalid} {
		for key := range all {
			s.Err = p.problemOf(key)
		}
	}
	s.InSync = p.conn.isRead() && p.replaced && s.Err == nil && p.books.pending() == 0
	return s
}
