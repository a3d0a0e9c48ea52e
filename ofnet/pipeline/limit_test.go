package pipeline

import (
	"context"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// The burst of tenMbps is a whole second of the rate, so that a machine that is busy for a moment does not lower
// the throughput.
var tenMbps = Limits{Rate: 10_000, Burst: 10_000}

func TestAnEndpointSendsAndReceivesNoMoreThanItsLimit(t *testing.T) {
	for _, direction := range []struct {
		name             string
		sender, receiver Endpoint
		meter            func(one, two *pod) uint32
	}{
		{"sent", limited(web1, tenMbps), db1, func(one, _ *pod) uint32 { return meterSent + one.port }},
		{"received", web1, limited(db1, tenMbps), func(_, two *pod) uint32 { return meterReceived + two.port }},
	} {
		t.Run(direction.name, func(t *testing.T) {
			c := startCluster(t, direction.sender, direction.receiver)
			sender, receiver := c.pod(web1), c.pod(db1)
			for _, size := range []int{1400, 400} {
				first, then := sender.flood(receiver, direction.meter(sender, receiver), size, 2*time.Second)
				burst, rate := float64(tenMbps.Burst), float64(tenMbps.Rate)
				if most := burst + rate*first.seconds; first.kbit < 0.9*burst || first.kbit > 1.1*most {
					t.Errorf("%d bytes: %.0f kbit passed at first, want %.0f to %.0f", size, first.kbit, burst, most)
				}
				if want := rate * then.seconds; math.Abs(then.kbit/want-1) > 0.1 {
					t.Errorf("%d bytes: %.0f kbit passed then, in %.3f s, want %.0f", size, then.kbit, then.seconds, want)
				}
				c.program() // with full buckets
			}
		})
	}
}

// passage is the traffic that passed a meter in a time by the switch's clock.
type passage struct{ kbit, seconds float64 }

func passedBetween(before, after openflow.MeterStats) passage {
	bytes := after.Bytes - before.Bytes - (after.Bands[0].Bytes - before.Bands[0].Bytes)
	return passage{float64(bytes) * 8 / 1000, (after.Duration - before.Duration).Seconds()}
}

// flood sends to an endpoint of another network more than the limit; it returns what passed the meter before it
// dropped anything, and what passed after that within the duration.
func (p *pod) flood(to *pod, meter uint32, size int, duration time.Duration) (first, then passage) {
	p.t.Helper()
	frame, wire := udpFrame(AnycastMAC, p.MAC, to.IPv4, p.IPv4, strings.Repeat("x", size)), p.wire()
	ctx, stop := context.WithCancel(p.t.Context())
	defer stop()
	ended := make(chan error, 1)
	before := p.node.meter(p.t, meter)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			if _, err = unix.Write(wire.fd, frame); err == unix.ENOBUFS {
				err = nil
			}
		}
		ended <- err
	}()
	// A meter that drops has used up its bucket: any traffic that a busy machine delayed was made up for by then.
	dropping := func(from time.Duration) (now openflow.MeterStats) {
		now = p.node.meter(p.t, meter)
		if eventually(func() string {
			last := now
			if now = p.node.meter(p.t, meter); last.Duration < from || now.Bands[0].Packets == last.Bands[0].Packets {
				return ""
			}
			return "dropped"
		}) == "" {
			p.t.Fatal("nothing is dropped")
		}
		return now
	}
	middle := dropping(0)
	after := dropping(middle.Duration + duration)
	stop()
	if err := <-ended; err != nil {
		p.t.Fatal(err)
	}
	return passedBetween(before, middle), passedBetween(middle, after)
}

// An endpoint beside a limited one, of the same group and network, is not limited.
func TestALimitIsThatOfOneEndpoint(t *testing.T) {
	p := node1()
	var meters []uint32
	for port, e := range []Endpoint{limited(here(web1), tenMbps), here(db1), limited(here(red1), tenMbps)} {
		wants := wantsOf(p, e, uint32(port)+1)
		for _, m := range wants.Meters {
			meters = append(meters, m.ID)
		}
		for _, f := range wants.Flows {
			if own := uint32(port) + 1; f.Meter != 0 && f.Meter&0xffff != own && f.Meter != questionMeter(own) {
				t.Errorf("port %d uses the meter of another: %s", port+1, f)
			}
		}
	}
	seen := map[uint32]bool{}
	for _, id := range meters {
		if seen[id] {
			t.Errorf("meter %d is that of two", id)
		}
		seen[id] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d meters, want 4 for each limited endpoint and 2 for the other", len(seen))
	}
}

// Each direction has the smaller one of the common and its own limit.
func TestEachDirectionHasTheSmallerLimit(t *testing.T) {
	for _, c := range []struct {
		limits         Limits
		sent, received uint32 // 0: no meter
	}{
		{Limits{Rate: 5}, 5, 5},
		{Limits{Sent: 3}, 3, 0},
		{Limits{Received: 3}, 0, 3},
		{Limits{Rate: 5, Sent: 3, Received: 9}, 3, 5},
		{Limits{Sent: 7, Received: 9}, 7, 9},
	} {
		got := map[uint32]uint32{}
		for _, m := range wantsOf(node1(), limited(here(web1), c.limits), 5).Meters {
			if m.Flags&openflow.MeterKbps != 0 {
				got[m.ID] = m.Bands[0].Rate
			}
		}
		want := map[uint32]uint32{}
		for id, rate := range map[uint32]uint32{meterSent + 5: c.sent, meterReceived + 5: c.received} {
			if rate != 0 {
				want[id] = rate
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%+v: meters %v, want %v", c.limits, got, want)
		}
	}
}

// Another rate changes the meter with the same number, and nothing else.
func TestAnotherRateChangesNoFlow(t *testing.T) {
	slow, fast := limited(here(web1), Limits{Rate: 1}), limited(here(web1), Limits{Rate: 1000})
	a, b := wantsOf(node1(), slow, 5), wantsOf(node1(), fast, 5)
	for i, f := range a.Flows {
		if f.String() != b.Flows[i].String() {
			t.Errorf("%s\n%s", f, b.Flows[i])
		}
	}
	if slow.Equal(fast) || a.Meters[1].Equal(b.Meters[1]) || a.Meters[1].ID != b.Meters[1].ID {
		t.Errorf("meters %v and %v", a.Meters, b.Meters)
	}
}

func TestABurstHoldsAPacketAndWhatComesBetweenTwoRefills(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		bucket uint32
	}{
		{Limits{Rate: 10_485}, 8000},
		{Limits{Rate: 10_485, Burst: 819}, 819},
		{Limits{Rate: 10_485, Burst: 16}, 525},                    // a packet of 64 KiB
		{Limits{Rate: 104_857}, 26_214},                           // 250 ms
		{Limits{Rate: 10_737_418, Burst: 2000}, 107_374},          // 10 ms
		{Limits{Rate: math.MaxUint32, Burst: 85_901}, 42_949_672}, // the largest of a meter
		{Limits{Rate: 1, Burst: 85_901}, 85_901},
	} {
		if got := c.limits.bucket(c.limits.Rate); got != c.bucket {
			t.Errorf("%+v: %d kbit, want %d", c.limits, got, c.bucket)
		}
	}
}

// Every IP packet and no other is marked, and the mark is visible on the underlay.
func TestWhatAnEndpointSendsIsMarkedInsideAndOutside(t *testing.T) {
	const expedited = 46
	c := startCluster(t, limited(web1, Limits{DSCP: expedited}), web2)
	sender, receiver, underlay := c.pod(web1).wire(), c.pod(web2).wire(), c.pod(web2).node.underlay(t)
	sender.send(udpFrame(web2.MAC, web1.MAC, web2.IPv4, web1.IPv4, "four"))
	if got := receiver.receive(soon, carrying("four")); got == nil || got[15] != expedited<<2 {
		t.Errorf("IPv4: got %x, want DSCP %d", got, expedited)
	}
	sender.send(udpFrame(web2.MAC, web1.MAC, web2.IPv6, web1.IPv6, "six"))
	if got := receiver.receive(soon, carrying("six")); got == nil || (got[14]&0xf<<4|got[15]>>4)>>2 != expedited {
		t.Errorf("IPv6: got %x, want DSCP %d", got, expedited)
	}
	for _, text := range []string{"four", "six"} {
		if got := underlay.receive(soon, carrying(text)); got == nil || got[15] != expedited<<2 {
			t.Errorf("the tunnel's header around %q: %x, want DSCP %d", text, got, expedited)
		}
	}
	// Packets in the other direction are another endpoint's.
	receiver.send(udpFrame(web1.MAC, web2.MAC, web1.IPv4, web2.IPv4, "back"))
	if got := sender.receive(soon, carrying("back")); got == nil || got[15] != 0 {
		t.Errorf("got %x, want no DSCP", got)
	}
}

// The switch must report meters as they were written, or every audit would write them again.
func TestTheSwitchReportsTheMetersOfALimit(t *testing.T) {
	c := startCluster(t, limited(web1, Limits{Rate: math.MaxUint32, Burst: 2}), limited(db1, Limits{Rate: 1}))
	n := c.nodes[0]
	there := map[uint32]openflow.Meter{}
	n.connected(t, func(conn *openflow.Conn) error {
		all, err := conn.Meters(t.Context())
		for _, m := range all {
			there[m.ID] = m
		}
		return err
	})
	wanted := c.wants(n).Meters
	for _, m := range wanted {
		if !m.Equal(there[m.ID]) {
			t.Errorf("reported %v, want %v", there[m.ID], m)
		}
	}
	if len(wanted) != 12 || len(there) != 12 {
		t.Errorf("%d meters, want %d, want 12", len(there), len(wanted))
	}
}

// An endpoint's meters for queries, floods and answers are not shared with endpoints at the next thousand ports.
func TestPortsOfANodeHaveMetersOfTheirOwn(t *testing.T) {
	seen := map[uint32]uint32{}
	for port := uint32(1); port <= 1024; port++ {
		for _, meter := range []uint32{questionMeter(port), floodedMeter(port), overheardMeter(port)} {
			if other, had := seen[meter]; had {
				t.Fatalf("ports %d and %d: meter %d is that of two", other, port, meter)
			}
			if meter < meterNames || meter > LastMeter {
				t.Errorf("port %d: meter %d", port, meter)
			}
			seen[meter] = port
		}
	}
}
