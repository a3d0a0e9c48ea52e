package ovsd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
	"github.com/contiv/netplugin/utils/fault"
)

// compiler turns objects into flows; the pipeline does.
type compiler interface {
	Base() pipeline.Wants
	For(o pipeline.Object, port uint32) (pipeline.Wants, error)
}

// portNumbers tells the OpenFlow numbers of ports.
type portNumbers interface {
	tunnelNumber() uint32
	endpointNumber(endpointID string) uint32 // 0: it has no port
	// changedEndpoints returns, once, the endpoints whose ports have changed.
	changedEndpoints() []string
}

// baseKey owns the flows that are there whatever objects are.
var baseKey = pipeline.Key{Kind: "base"}

// programmer makes the flows of the switch equal to the objects. It is one
// goroutine; nothing here is shared.
type programmer struct {
	log         *logrus.Entry
	audit       time.Duration
	inbox       *inbox
	connections <-chan flowSwitch
	ports       portNumbers
	newCompiler func(tunnel uint32) compiler
	solicit     func(peer netip.Addr) error // nil: the datapath finds its peers itself
	report      func(progress)

	compiler compiler
	objects  map[pipeline.Key]pipeline.Object
	peers    peers
	book     *book
	tunnel   uint32

	sw       flowSwitch // nil: not connected
	looked   bool       // the book knows what is in sw
	replaced bool       // the agent has said what it wants as a whole
	refused  refusals
	invalid  map[pipeline.Key]error
	waiting  []*ticket
	lastErr  error // of the connection
}

// progress is what the programmer says of itself.
type progress struct {
	connected, inSync bool
	flows             int
	err               error
}

func newProgrammer(d *Driver) *programmer {
	p := &programmer{
		log:         d.log,
		audit:       d.config.AuditInterval,
		inbox:       d.inbox,
		connections: d.connections,
		ports:       d.db,
		newCompiler: func(tunnel uint32) compiler {
			return pipeline.New(pipeline.Config{TunnelPort: tunnel, LocalVTEP: d.config.VTEP})
		},
		report:  d.noteProgress,
		objects: map[pipeline.Key]pipeline.Object{},
		book:    newBook(),
		refused: refusals{},
		invalid: map[pipeline.Key]error{},
		peers:   peers{},
	}
	if d.datapathType() == DatapathNetdev {
		p.solicit = d.links.solicit
	}
	return p
}

// run works until ctx is done.
func (p *programmer) run(ctx context.Context) error {
	audit := time.NewTicker(p.audit)
	defer audit.Stop()
	for {
		p.work(ctx)
		p.report(p.progress())
		if err := p.sleep(ctx, audit.C); err != nil {
			return err
		}
	}
}

// sleep returns when there may be something to do.
func (p *programmer) sleep(ctx context.Context, audit <-chan time.Time) error {
	var lost <-chan struct{}
	if p.sw != nil {
		lost = p.sw.Done()
	}
	var retry <-chan time.Time
	if when, ok := p.refused.nextTry(); ok && p.sw != nil {
		timer := time.NewTimer(time.Until(when))
		defer timer.Stop()
		retry = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.inbox.news:
	case <-retry:
	case p.sw = <-p.connections:
		p.looked = false
		p.meetAll()
	case <-lost:
		p.log.Warn("switch connection lost")
		p.sw = nil
	case <-audit:
		p.meetAll()
		if p.sw != nil && p.looked {
			p.look(ctx, true)
		}
	}
	return nil
}

// work brings the switch up to date with everything that is known by now.
func (p *programmer) work(ctx context.Context) {
	var changes []drivers.Change
	changes, p.waiting = p.inbox.take()
	p.renumber()
	for _, c := range changes {
		p.accept(c)
	}
	if p.sw == nil || (!p.looked && !p.look(ctx, false)) {
		return
	}
	now := time.Now()
	result, err := install(ctx, p.sw, p.ready(now))
	p.book.done(result.done)
	for owner, err := range p.refused.note(result, now) {
		p.problem(owner, err)
	}
	if err != nil {
		p.giveUp(err)
		return
	}
	p.answer()
}

// answer tells those who wait in Sync what is wrong with their objects.
func (p *programmer) answer() {
	p.lastErr = nil
	for _, t := range p.waiting {
		var problems []error
		keys := t.keys
		if len(keys) == 0 {
			keys = slices.Concat(slices.Collect(maps.Keys(p.invalid)), slices.Collect(maps.Keys(p.refused)))
		}
		for _, key := range keys {
			if err := p.problemOf(key); err != nil {
				problems = append(problems, err)
			}
		}
		p.inbox.answer(t, errors.Join(problems...))
	}
	p.waiting = nil
}

// problemOf says why an object is not in the switch.
func (p *programmer) problemOf(key pipeline.Key) error {
	err := p.invalid[key]
	if r := p.refused[key]; err == nil && r != nil {
		err = r.err
	}
	if err == nil {
		return nil
	}
	return fault.New(fault.KindOf(err), "%s %s: %w", key.Kind, key.ID, err)
}

// forget drops what was wrong with an object that is gone or has changed.
func (p *programmer) forget(key pipeline.Key) {
	delete(p.invalid, key)
	delete(p.refused, key)
}

// giveUp ends a connection on which the switch does not answer; the client
// makes a new one, and what is in the switch is looked up again.
func (p *programmer) giveUp(err error) {
	p.lastErr = err
	p.log.WithError(err).Warn("switch does not answer")
	p.sw.Close()
	p.sw = nil
}

// problem reports an object that is not in the switch, once.
func (p *programmer) problem(owner pipeline.Key, err error) {
	p.log.WithError(err).WithFields(logrus.Fields{"kind": owner.Kind, "object": owner.ID}).Error("object is not in the switch")
}

// accept takes a change of the wanted objects.
func (p *programmer) accept(c drivers.Change) {
	remove := c.Remove
	if c.Replace {
		p.replaced = true
		keep := map[pipeline.Key]bool{}
		for _, o := range c.Set {
			keep[o.Key()] = true
		}
		for key := range p.objects {
			if !keep[key] {
				remove = append(remove, key)
			}
		}
	}
	for _, key := range remove {
		p.peers.replace(p.objects[key], nil)
		delete(p.objects, key)
		p.forget(key)
		p.book.set(key, nil)
	}
	for _, o := range c.Set {
		key := o.Key()
		if before, ok := p.objects[key]; ok && o.Equal(before) {
			continue
		}
		if met := p.peers.replace(p.objects[key], o); met.IsValid() {
			p.meet(met)
		}
		p.objects[key] = o
		p.compile(key)
	}
}

// meet makes the switch find a peer before the first packet is for it.
func (p *programmer) meet(peer netip.Addr) {
	if p.solicit == nil {
		return
	}
	if err := p.solicit(peer); err != nil {
		p.log.WithError(err).Warn("the first packet to a peer may be lost")
	}
}

func (p *programmer) meetAll() {
	for peer := range p.peers {
		p.meet(peer)
	}
}

// compile computes the flows of an object anew.
func (p *programmer) compile(key pipeline.Key) {
	o := p.objects[key]
	p.forget(key)
	var port uint32
	if e, ok := o.(pipeline.Endpoint); ok && e.Local {
		port = p.ports.endpointNumber(e.ID)
	}
	wants, err := p.compiler.For(o, port)
	if err != nil {
		p.invalid[key] = err
		p.problem(key, err)
	}
	p.enter(key, wants.Flows)
}

// enter writes the flows of an object into the book.
func (p *programmer) enter(key pipeline.Key, flows []openflow.Flow) {
	for _, c := range p.book.set(key, flows) {
		p.log.WithFields(logrus.Fields{
			"flow": c.flow.String(), "newcomer": fmt.Sprint(c.newcomer), "present": fmt.Sprint(c.present),
		}).Warn("two objects want different flows for the same packets")
	}
}

// renumber takes over the numbers of the ports. The tunnel's is part of most
// flows, an endpoint's only of its own.
func (p *programmer) renumber() {
	changed, tunnel := p.ports.changedEndpoints(), p.ports.tunnelNumber()
	if p.compiler == nil || tunnel != p.tunnel {
		p.tunnel = tunnel
		p.compiler = p.newCompiler(tunnel)
		p.enter(baseKey, p.compiler.Base().Flows)
		for key := range p.objects {
			p.compile(key)
		}
		return
	}
	for _, id := range changed {
		key := pipeline.Key{Kind: pipeline.KindEndpoint, ID: id}
		if _, wanted := p.objects[key]; wanted {
			p.compile(key)
		}
	}
}

// look reads what is in the switch. As an audit it expects to find what the
// book knows.
func (p *programmer) look(ctx context.Context, audit bool) bool {
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	stats, err := p.sw.Flows(ctx, openflow.FlowFilter{})
	if err != nil {
		p.giveUp(fmt.Errorf("flows in the switch: %w", err))
		return false
	}
	found := make(map[string]openflow.Flow, len(stats))
	for _, s := range stats {
		temporary := s.IdleTimeout != 0 || s.HardTimeout != 0
		if cookie.Ours(s.Cookie) || !temporary {
			found[s.MatchKey()] = s.Flow
		}
	}
	drifted := p.book.seen(found)
	p.looked = true
	if audit && len(drifted) > 0 {
		p.log.WithFields(logrus.Fields{"flows": len(drifted), "first": drifted[0].String()}).
			Warn("flows were changed by somebody else, repairing")
	}
	return true
}

// ready returns what is to be written now.
func (p *programmer) ready(now time.Time) []step {
	var list []step
	pending := map[pipeline.Key]bool{}
	for _, s := range p.book.steps() {
		pending[s.owner] = true
		// A switch full of flows of the run before serves its endpoints until
		// we know which of them are still wanted.
		if s.remove && !p.replaced || p.refused.blocked(s.owner, now) {
			continue
		}
		list = append(list, s)
	}
	// What was refused may be settled by now, by another object in its place.
	maps.DeleteFunc(p.refused, func(owner pipeline.Key, _ *refusal) bool { return !pending[owner] })
	return list
}

func (p *programmer) progress() progress {
	s := progress{connected: p.sw != nil, flows: p.book.wanted(), err: p.lastErr}
	for key, r := range p.refused {
		s.err = fmt.Errorf("%s %s: %w", key.Kind, key.ID, r.err)
	}
	for key, err := range p.invalid {
		s.err = fmt.Errorf("%s %s: %w", key.Kind, key.ID, err)
	}
	s.inSync = p.sw != nil && p.looked && p.replaced && s.err == nil && p.book.clean()
	return s
}
