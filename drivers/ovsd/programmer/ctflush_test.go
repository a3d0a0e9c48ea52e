package programmer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// flushSwitch is the books and the switch's groups: every write of the books succeeds at once.
type flushSwitch struct {
	*testing.T
	*books
}

// balanced is a service whose ports have a target each.
func balanced(providers string, ports map[uint16]uint16) pipeline.Service {
	s := pipeline.Service{ID: "s:t", VRF: 1, Tag: 1}
	for _, name := range providers {
		s.Providers = append(s.Providers, netip.AddrFrom4([4]byte{10, 1, 0, byte(name)}))
	}
	for _, port := range []uint16{80, 443} {
		if target := ports[port]; target != 0 {
			s.Ports = append(s.Ports, pipeline.ServicePort{Address: netip.MustParseAddr("10.1.0.200"), From: pipeline.FromPods, Protocol: openflow.ProtoTCP, Port: port, Target: target})
		}
	}
	return s.Numbered(func(uint32) bool { return false })
}

// want makes the switch serve a service; nil: none.
func (s flushSwitch) want(o *pipeline.Service) flushSwitch {
	s.Helper()
	key := pipeline.Key{Kind: pipeline.KindService, ID: "s:t"}
	var p packed
	if o != nil {
		wants, err := pipeline.New(pipeline.Config{TunnelPort: 1}).For(*o, 0)
		if err != nil {
			s.Fatal(err)
		}
		if p, err = pack(wants); err != nil {
			s.Fatal(err)
		}
	}
	s.set(key, p)
	s.write()
	return s
}

func (s flushSwitch) write() {
	for s.unfinished() {
		b := s.next(nil, func(pipeline.Key) bool { return false })
		for _, step := range slices.Concat(b.meters, b.bundle, b.oldMeters) {
			step.difference.done()
		}
	}
}

// inSwitch returns the groups in the switch.
func (s flushSwitch) inSwitch() (groups []openflow.Group) {
	for _, p := range s.groups.places {
		if p.there {
			groups = append(groups, p.have)
		}
	}
	return groups
}

// restarted returns new books for the same switch.
func (s flushSwitch) restarted() flushSwitch {
	l := newBooks(defaultChunk)
	compareNumbered(l.groups, s.inSwitch(), func(g openflow.Group) (uint32, error) { return g.ID, nil }, l.nextTurn(), nil)
	return flushSwitch{s.T, l}
}

// lookedUp returns the books after the switch was read again, and has these groups.
func (s flushSwitch) lookedUp(groups ...openflow.Group) flushSwitch {
	s.forget()
	compareNumbered(s.groups, groups, func(g openflow.Group) (uint32, error) { return g.ID, nil }, s.nextTurn(), nil)
	s.flushFormer()
	s.write()
	return s
}

// round sends the next flushes, each with all the passes of a round, some time after the previous round.
func (s flushSwitch) round(again bool) (ended []openflow.CTFlush) {
	s.Helper()
	passes := map[openflow.CTFlush]int{}
	for _, e := range s.flushing {
		e.ended = e.ended.Add(-flushPause)
	}
	now := time.Now()
	for s.queueFlushes(again, now); len(s.queue) > 0; {
		flushes, ends := s.nextFlushes(2)
		for _, c := range flushes {
			passes[c]++
		}
		s.flushed(ends, false, now, now)
	}
	for c, count := range passes {
		if count != flushPasses {
			s.Errorf("%s: %d passes", c, count)
		}
		ended = append(ended, c)
	}
	return ended
}

// expect compares the next flushes, as provider and port.
func (s flushSwitch) expect(what string, again bool, want ...string) {
	s.Helper()
	var got []string
	for _, c := range s.round(again) {
		provider := byte('*')
		if c.From.IsValid() {
			provider = c.From.Addr().As4()[3]
		}
		got = append(got, fmt.Sprintf("%c:%d", provider, c.To.Port()))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.Errorf("%s: ended %q, want %q", what, got, want)
	}
	s.write()
}

func (s flushSwitch) buckets() (count int) {
	for _, g := range s.inSwitch() {
		count += len(g.Buckets)
	}
	return count
}

func TestConnectionsOfWhatIsGoneAreEndedForSomeRounds(t *testing.T) {
	web := map[uint16]uint16{80: 8080}
	start := func(providers string, ports map[uint16]uint16) flushSwitch {
		o := balanced(providers, ports)
		return flushSwitch{t, newBooks(defaultChunk)}.want(&o)
	}
	service := func(providers string, ports map[uint16]uint16) *pipeline.Service {
		o := balanced(providers, ports)
		return &o
	}

	s := start("ab", web)
	s.expect("at the start", false)
	s.want(service("b", web)).expect("a has gone", false, "a:80")
	s.want(nil).expect("the service has gone", false, "*:80")
	if s.buckets() != 2 || s.pending() != 0 {
		t.Errorf("%d buckets while connections are ended, %d pending", s.buckets(), s.pending())
	}
	for range flushRounds - 1 {
		s.expect("one more round", true, "*:80")
	}
	s.expect("all rounds are over", true)
	if len(s.inSwitch()) != 0 || s.hasLater() {
		t.Errorf("left: %v", s.inSwitch())
	}

	s = start("ab", web).want(service("b", web))
	s.expect("a has gone", false, "a:80")
	s.want(service("ab", web)).expect("a is back", true)
	if s.buckets() != 2 || s.hasLater() {
		t.Errorf("left: %v", s.inSwitch())
	}

	// Flushes that another run of the agent had not finished, or not even begun.
	s = start("ab", web).want(service("b", web)).restarted().want(service("b", web))
	s.expect("restarted", false, "a:80")
	s = start("ab", web).restarted().want(nil)
	s.expect("gone meanwhile", false, "*:80")
	s.lookedUp().expect("the switch has been started again", false, "*:80")
	if len(s.inSwitch()) != 0 || !s.hasLater() {
		t.Errorf("another switch: %v", s.inSwitch())
	}
	s = start("ab", web).lookedUp()
	s.expect("what is wanted goes on", false)
	s.forget()
	s.want(service("b", web)).lookedUp().expect("a has gone meanwhile", false, "a:80")
	s.want(service("ab", web)).expect("a is back", true)
	s.want(service("b", web)).expect("and has gone again", false, "a:80")
	if s.buckets() != 2 {
		t.Errorf("%d buckets while connections are ended", s.buckets())
	}
	kept := start("ab", web).want(service("b", web)) // only a connection to the switch is lost
	kept.lookedUp(kept.inSwitch()...).expect("its bucket is there", false, "a:80")
	if kept.buckets() != 2 {
		t.Errorf("%d buckets while connections are ended", kept.buckets())
	}

	two := map[uint16]uint16{80: 8080, 443: 8080}
	s = start("a", two).want(service("a", map[uint16]uint16{80: 8080, 443: 8443}))
	s.expect("the other port of the provider goes on", false, "a:443")
	s = start("a", two).want(service("a", web))
	s.expect("a port has gone", false, "*:443")

	// A group with another number creates the same connections.
	moved := service("ab", web)
	moved.Ports[0].Group++
	s = start("ab", web).want(moved)
	s.expect("another number", false)
	if s.buckets() != 2 {
		t.Errorf("left: %v", s.inSwitch())
	}
}

// crowd returns a service with as many providers as possible, with addresses of a network of their own.
func crowd(network byte) *pipeline.Service {
	s := pipeline.Service{ID: "s:t", VRF: 1, Tag: 1, Ports: []pipeline.ServicePort{
		{Address: netip.MustParseAddr("fd00::200"), From: pipeline.FromPods | pipeline.FromHost, Protocol: openflow.ProtoUDP, Port: 80}}}
	for i := range pipeline.MaxProviders {
		provider := netip.AddrFrom16([16]byte{0xfd, network, 14: byte(i >> 8), 15: byte(i)})
		s.Ports[0].Serving = append(s.Ports[0].Serving, netip.AddrPortFrom(provider, 8080))
	}
	s = s.Numbered(func(uint32) bool { return false })
	return &s
}

// All providers of a service are replaced, and replaced again before the connections to the former ones were
// flushed, or while the switch was not read: the group always fits into a message, and all connections are
// flushed.
func TestProvidersThatAreReplacedAtOnceDoNotStayInTheirGroup(t *testing.T) {
	s := flushSwitch{t, newBooks(defaultChunk)}
	ended := map[netip.Addr]bool{}
	look := func(when string, now byte, again bool) {
		t.Helper()
		groups := s.inSwitch()
		if len(groups) != 1 {
			t.Fatalf("%s: %d groups", when, len(groups))
		}
		serving := 0
		for _, b := range groups[0].Buckets {
			c := pipeline.Connections(openflow.Group{Buckets: []openflow.Bucket{b}})[0]
			if is := c.From.Addr().As16()[1] == now; is != (b.Weight > 0) {
				t.Fatalf("%s: weight %d of %s", when, b.Weight, c.From)
			} else if is {
				serving++
			}
		}
		if bytes := sizeOf(groups[0]); serving != pipeline.MaxProviders || bytes > openflow.GroupRoom {
			t.Errorf("%s: %d serve; %d bytes, there is room for %d", when, serving, bytes, openflow.GroupRoom)
		}
		for _, c := range s.round(again) {
			ended[c.From.Addr()] = true
		}
		s.write()
	}
	s.want(crowd(1))
	look("at first", 1, false)
	s.want(crowd(2))
	look("replaced", 2, false)
	s.want(crowd(3))
	look("replaced again", 3, true)
	s = s.restarted()
	s.want(crowd(4))
	look("replaced while nobody looked", 4, false)
	for range flushRounds {
		look("later", 4, true)
	}
	if want := 3 * pipeline.MaxProviders; len(ended) != want {
		t.Errorf("connections to %d providers are ended, want %d", len(ended), want)
	}
	if len(s.flushing) > 0 || s.buckets() != pipeline.MaxProviders {
		t.Errorf("left: %d endings, %d buckets", len(s.flushing), s.buckets())
	}
}

func TestNoGroupIsLeftOfThoseThatMakeTheSameConnections(t *testing.T) {
	both, pods := balanced("ab", map[uint16]uint16{80: 8080}), balanced("ab", map[uint16]uint16{80: 8080})
	outside := both.Ports[0]
	outside.From, outside.Target, outside.Serving = pipeline.FromOutside, 0, []netip.AddrPort{netip.AddrPortFrom(both.Providers[0], 8080)}
	both.Ports = append(both.Ports, outside)
	both = both.Numbered(func(uint32) bool { return false })

	s := flushSwitch{t, newBooks(defaultChunk)}.want(&both)
	if len(s.inSwitch()) != 2 || s.buckets() != 3 {
		t.Fatalf("at the start: %v", s.inSwitch())
	}
	s.want(nil).expect("the service has gone", false, "*:80")
	if s.buckets() != 3 {
		t.Errorf("%d buckets while connections are ended", s.buckets())
	}
	for range flushRounds - 1 {
		s.expect("one more round", true, "*:80")
	}
	s.expect("all rounds are over", true)
	if len(s.inSwitch()) != 0 || s.hasLater() {
		t.Errorf("left: %v", s.inSwitch())
	}

	s = flushSwitch{t, newBooks(defaultChunk)}.want(&both).want(nil)
	s.expect("the service has gone", false, "*:80")
	s.want(&pods).expect("it is back for pods only", true)
	if len(s.inSwitch()) != 1 || s.buckets() != 2 || s.hasLater() {
		t.Errorf("left: %v", s.inSwitch())
	}

	s = flushSwitch{t, newBooks(defaultChunk)}.want(&both).want(&pods)
	s.expect("only one has gone", false)
	if len(s.inSwitch()) != 1 || s.pending() != 0 {
		t.Errorf("left: %v", s.inSwitch())
	}
}

func TestStepsOfEndingsAreSmall(t *testing.T) {
	const most = 4
	all, few := balanced("abcdefghijklmnop", map[uint16]uint16{80: 8080}), balanced("p", map[uint16]uint16{80: 8080})
	s := flushSwitch{t, newBooks(defaultChunk)}.want(&all).want(&few)
	s.queueFlushes(false, time.Now())
	var steps, total int
	for len(s.queue) > 0 {
		flushes, ends := s.nextFlushes(most)
		if again, _ := s.nextFlushes(most); len(flushes) > most || len(ends) == 0 || !slices.Equal(flushes, again) {
			t.Fatalf("%d flushes that end %d of %d, then %d", len(flushes), len(ends), len(s.queue), len(again))
		}
		s.flushed(ends, false, time.Now(), time.Now().Add(-flushPause))
		steps, total = steps+1, total+len(flushes)
	}
	if total != 15*flushPasses || steps != 4*flushPasses {
		t.Errorf("%d flushes in %d steps", total, steps)
	}

	// A first round overtakes later rounds of other flushes.
	s.queueFlushes(true, time.Now())
	two := balanced("p", map[uint16]uint16{80: 8443})
	s.want(&two).queueFlushes(false, time.Now())
	if flushes, _ := s.nextFlushes(most); len(flushes) == 0 || flushes[0].From.Addr().As4()[3] != 'p' {
		t.Errorf("first: %v", flushes)
	}
	s.want(&all).queueFlushes(false, time.Now())
	if flushes, _ := s.nextFlushes(most); len(flushes) != 1 || flushes[0].From.Port() != 8443 {
		t.Errorf("all are providers again, and are ended: %v", flushes)
	}
}

// unflushing is a switch that answers flushes with an error.
type unflushing struct {
	*fakeSwitch
	reason error
}

func (u unflushing) Send(context.Context, ...openflow.Message) error { return u.reason }

func TestOnlyASwitchThatCannotEndConnectionsIsNotAskedAgain(t *testing.T) {
	lasting := func(reason error) (rounds int, queued bool) {
		all, few := balanced("ab", map[uint16]uint16{80: 8080}), balanced("b", map[uint16]uint16{80: 8080})
		s := flushSwitch{t, newBooks(defaultChunk)}.want(&all).want(&few)
		p := (&harness{t: t}).programmer()
		p.flusher.schedule(s.books)
		for range flushPasses {
			p.flusher.step(t.Context(), unflushing{newFakeSwitch(), reason}, s.books)
		}
		for _, e := range s.flushing {
			rounds += e.rounds
		}
		return rounds, p.flusher.soon != nil && len(s.queue) > 0
	}
	for what, test := range map[string]struct {
		reason error
		rounds int
		queued bool
	}{
		"late":        {context.DeadlineExceeded, flushRounds, true},
		"unsupported": {&openflow.Error{Type: 1, Code: 4}, 0, false},
		"refused":     {&openflow.Error{Type: 1, Code: 10}, flushRounds - 1, false},
		"done":        {nil, flushRounds - 1, false},
	} {
		if rounds, queued := lasting(test.reason); rounds != test.rounds || queued != test.queued {
			t.Errorf("%s: %d rounds to come, queued %v", what, rounds, queued)
		}
	}
}

// Uniting the buckets of a group, those of its service and those still to be flushed, processes each bucket once.
func TestTheBucketsOfAGroupAreUnitedByOneLookAtEach(t *testing.T) {
	const half, enough = 30_000, 10 * time.Second
	makes := func(first, last int) (g openflow.Group) {
		for i := first; i < last; i++ {
			provider := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			g.Buckets = append(g.Buckets, openflow.Bucket{Weight: 1, Actions: []openflow.Action{openflow.CT{Commit: true, Zone: 1, Actions: []openflow.Action{
				openflow.NAT{Kind: openflow.NATDestination, MinIP: provider, MinPort: 8080},
				openflow.SetField{FieldMatch: openflow.CTMark(6<<16|80, ^uint32(0))}, openflow.SetField{FieldMatch: openflow.CTLabel(openflow.Value{}, openflow.Value{})},
			}}}})
		}
		return g
	}
	claims := []claim[openflow.Group]{{pipeline.Key{Kind: pipeline.KindService}, makes(0, 2*half)}, {pipeline.Key{Kind: kindFlushed}, makes(half, 3*half)}}
	var united claim[openflow.Group]
	if took := testkit.Processor(t, func() { united = uniteGroups("", claims) }); took > enough {
		t.Errorf("it took %v", took)
	}
	if got := len(united.thing.Buckets); got != 3*half || united.owner.Kind != pipeline.KindService {
		t.Errorf("%d buckets of a %s, want %d", got, united.owner.Kind, 3*half)
	}
}
