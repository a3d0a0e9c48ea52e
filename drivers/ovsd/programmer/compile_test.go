package programmer

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/ovstest"
)

// countingCompiler is a compiler that counts its calls.
type countingCompiler struct {
	ruleCompiler
	asked *atomic.Int32
}

func (c countingCompiler) For(o pipeline.Object, port uint32) (pipeline.Wants, error) {
	c.asked.Add(1)
	return c.ruleCompiler.For(o, port)
}

// lateTunnel is a switch whose tunnel is not known at first.
type lateTunnel struct {
	noPorts
	number *atomic.Uint32
}

func (p lateTunnel) FixedPorts() FixedPorts { return FixedPorts{Trunk: p.number.Load()} }

func TestObjectsAreComputedOnceHoweverLateTheTunnelIsKnown(t *testing.T) {
	var asked atomic.Int32
	var number atomic.Uint32
	h := newHarness(t, func(h *harness) {
		h.ports = lateTunnel{number: &number}
		h.compiler = countingCompiler{asked: &asked}
	})
	h.inbox.put(drivers.Change{Replace: true, Set: manyRules(100)})
	h.eventually("the change is taken", h.inbox.settled)
	number.Store(1)
	h.connect(newFakeSwitch())
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n != 100 {
		t.Errorf("asked %d times for 100 objects", n)
	}
}

// remotes returns endpoints of other nodes.
func remotes(count int) []pipeline.Object {
	list := make([]pipeline.Object, count)
	for i := range list {
		list[i] = pipeline.Endpoint{
			ID: fmt.Sprint("web.blue-", i), Network: "web.blue", Tenant: "blue", VRF: 1, VNI: 5001, Tag: 1, Group: 5,
			IPv4: netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}),
			MAC:  [6]byte{2, 3, byte(i >> 16), byte(i >> 8), byte(i), 1}, VTEP: netip.MustParseAddr("192.0.2.2"),
		}
	}
	return list
}

func testPipeline() *pipeline.Pipeline {
	return pipeline.New(pipeline.Config{TunnelPort: 1, LocalVTEP: netip.MustParseAddr("192.0.2.1")})
}

// countingSwitch counts the messages that change the switch.
type countingSwitch struct {
	*openflow.Conn
	changes *atomic.Int32
}

func (s countingSwitch) Bundle(ctx context.Context, messages ...openflow.Message) error {
	s.changes.Add(int32(len(messages)))
	return s.Conn.Bundle(ctx, messages...)
}

func (s countingSwitch) SendEach(ctx context.Context, messages ...openflow.Message) ([]error, error) {
	s.changes.Add(int32(len(messages)))
	return s.Conn.SendEach(ctx, messages...)
}

func (s countingSwitch) Send(ctx context.Context, messages ...openflow.Message) error {
	for _, m := range messages {
		if _, ends := m.(openflow.CTFlush); !ends {
			s.changes.Add(1)
		}
	}
	return s.Conn.Send(ctx, messages...)
}

func TestARestartWithNothingChangedWritesNothing(t *testing.T) {
	s := ovstest.Start(t)
	s.AddBridge("br0")
	objects := append(remotes(1000),
		pipeline.Network{ID: "web.blue", Tenant: "blue", VRF: 1, VNI: 5001, Tag: 1,
			Subnet: netip.MustParsePrefix("11.0.0.0/8"), Gateway: netip.MustParseAddr("11.255.0.1")},
		pipeline.Endpoint{ID: "web.blue-here", Network: "web.blue", Tenant: "blue", VRF: 1, VNI: 5001, Tag: 1, Group: 6,
			IPv4: netip.MustParseAddr("11.1.0.1"), IPv6: netip.MustParseAddr("fd00::1"), MAC: [6]byte{2, 4}, Local: true},
		pipeline.Rule{ID: "r1", Priority: 1, SrcGroup: 5, Protocol: 6, TCPFlags: "syn,!ack"},
		pipeline.Rule{ID: "r2", Priority: 2, Src: netip.MustParsePrefix("fd00::/64"), Protocol: 17, DstPort: 53, Allow: true})
	run := func(change drivers.Change) int32 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		conn, err := openflow.Dial(ctx, s.Bridge("br0"), openflow.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		sw := countingSwitch{conn, &atomic.Int32{}}
		h := newHarness(t, func(h *harness) { h.compiler, h.ports = testPipeline(), localPort{} })
		h.inbox.put(change)
		h.connections <- sw
		if err := h.sync(); err != nil {
			t.Fatal(err)
		}
		return sw.changes.Load()
	}
	all := drivers.Change{Replace: true, Set: objects}
	if n := run(all); n < 3000 {
		t.Errorf("%d changes at first", n)
	}
	for range 3 {
		if n := run(all); n != 0 {
			t.Errorf("%d changes at a restart", n)
		}
	}
	all.Set = objects[1:]
	if n := run(all); n != 3 {
		t.Errorf("%d changes at a restart without one remote endpoint", n)
	}
}

// localPort gives every local endpoint the same port.
type localPort struct{ noPorts }

func (localPort) EndpointNumber(string) uint32 { return 10 }

// The fake switch refuses everything that uses a meter beyond its number of meters.
func TestASwitchWithFewOrNoMetersGetsEverythingElse(t *testing.T) {
	for most, want := range map[uint32]map[uint32]bool{
		0:      {},
		70_000: {10: true, 1<<16 + 10: true}, // for its answers, and for what it sends
	} {
		h, sw := newHarness(t, func(h *harness) { h.ports = localPort{} }), newFakeSwitch()
		sw.meters = most
		h.connect(sw)
		here := remotes(1)[0].(pipeline.Endpoint)
		here.Local, here.Limits = true, pipeline.Limits{Rate: 1000}
		h.inbox.put(drivers.Change{Replace: true, Set: []pipeline.Object{here}})
		if err := h.sync(here.Key()); err != nil {
			t.Fatal(err)
		}
		if flows, _ := sw.count(); flows < 10 {
			t.Errorf("%d flows", flows)
		}
		used := map[uint32]bool{}
		sw.set(func() {
			for _, f := range sw.flows {
				if m := f.Flow().Meter; m != 0 {
					used[m] = true
				}
			}
		})
		if !maps.Equal(used, want) {
			t.Errorf("of meters up to %d: %v are used, want %v", most, used, want)
		}
	}
}

// BenchmarkInstall measures the cost of a remote endpoint here, from the object until its flows are recorded as
// written; the switch takes no time.
func BenchmarkInstall(b *testing.B) {
	all := drivers.Change{Replace: true, Set: remotes(20_000)}
	b.ReportAllocs()
	for b.Loop() {
		p := &Programmer{config: Config{Ports: noPorts{}, Replaced: func(_, _ pipeline.Object) {}, Complete: func() {}}, objects: map[pipeline.Key]pipeline.Object{},
			books: newBooks(defaultChunk), refused: refusals{}, invalid: map[pipeline.Key]error{}, compiler: testPipeline()}
		p.accept(all)
		for p.books.unfinished() {
			for _, s := range p.books.next(nil, never).bundle {
				s.done()
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all.Set)), "ns/object")
}
