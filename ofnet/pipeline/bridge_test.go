package pipeline

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// startBridged starts a cluster with lan.blue, its twin lan.red, and a routed network beside them.
func startBridged(t *testing.T, more ...Endpoint) *cluster {
	return startCluster(t, append([]Endpoint{lan1, lan2, lan3, lr1, lr2, web1}, more...)...)
}

func TestBridgedPodsReachTheirNetworkAndNobodyElse(t *testing.T) {
	c := startBridged(t, hub1, hub2)
	var all sync.WaitGroup
	expect := func(from, to Endpoint, want int) {
		all.Go(func() {
			for _, a := range []netip.Addr{to.IPv4, to.IPv6} {
				if got := c.pod(from).pings(a, want); got != want {
					t.Errorf("%s pings %s at %s: TTL %d, want %d (0: no answer)", from.ID, to.ID, a, got, want)
				}
			}
		})
	}
	for _, members := range [][]Endpoint{{lan1, lan2, lan3}, {lr1, lr2}, {hub1, hub2}} {
		for _, from := range members {
			for _, to := range members {
				if from.ID != to.ID {
					expect(from, to, 64)
				}
			}
		}
	}
	expect(lr1, lan3, 0)
	expect(lan1, web1, 0) // another network of the tenant: a bridge does not route
	expect(web1, lan1, 0)
	all.Wait()
	// The kernel first checks that its link-local address is free.
	for from, to := range map[Endpoint]Endpoint{lan1: lan3, lan2: lan1, lr1: lr2, hub1: hub2} {
		own := linkLocalOf(to.MAC).WithZone("eth0")
		if c.pod(from).pinged(own) == 0 {
			t.Errorf("%s pings %s at %s: no answer", from.ID, to.ID, own)
		}
	}
}

// got returns how often frames with a text reach a wire, until a fence frame that follows them arrives.
func (w *wire) got(fence, text string) (times int) {
	w.pod.t.Helper()
	for {
		switch frame := w.receive(soon, func(f []byte) bool { return carrying(text)(f) || carrying(fence)(f) }); {
		case frame == nil:
			w.pod.t.Errorf("%s does not get %q", w.pod.ID, fence)
			return times
		case carrying(fence)(frame):
			return times
		}
		times++
	}
}

func TestWhatIsForNobodyInParticularReachesTheMembersOnce(t *testing.T) {
	c := startBridged(t)
	sender := c.pod(lan1).wire()
	all := map[string]*wire{}
	for _, e := range []Endpoint{lan1, lan2, lan3, lr1, lr2, web1} {
		all[e.ID] = c.pod(e).wire()
	}
	linkLocal1 := linkLocalOf(lan1.MAC)
	for _, test := range []struct {
		name  string
		frame func(text string) []byte
		stays bool // it is not delivered
	}{
		{"broadcast", func(s string) []byte {
			return udpFrame(broadcast, lan1.MAC, addr("255.255.255.255"), lan1.IPv4, s)
		}, false},
		{"IPv4 multicast", func(s string) []byte {
			return udpFrame(mac{0x01, 0x00, 0x5e, 0, 0, 0xfb}, lan1.MAC, addr("224.0.0.251"), lan1.IPv4, s)
		}, false},
		{"IPv6 multicast", func(s string) []byte {
			return udpFrame(mac{0x33, 0x33, 0, 0, 0, 0xfb}, lan1.MAC, addr("ff02::fb"), linkLocal1, s)
		}, false},
		{"a MAC that nobody has", func(s string) []byte {
			return udpFrame(mac{2, 2, 10, 1, 4, 77}, lan1.MAC, addr("10.1.4.77"), lan1.IPv4, s)
		}, false},
		{"what is not IP", func(s string) []byte { return ethernet(broadcast, lan1.MAC, 0x88b5, []byte(s)) }, false},
		{"a DHCP client", func(s string) []byte {
			f := udpFrame(broadcast, lan1.MAC, addr("255.255.255.255"), netip.IPv4Unspecified(), s)
			copy(f[34:], []byte{0, 68, 0, 67})
			return f
		}, false},
		{"an ARP request for an address that nobody has", func(s string) []byte {
			return append(arpFrame(lan1.MAC, lan1.IPv4, addr("10.1.4.77")), s...)
		}, false},
		{"another's MAC", func(s string) []byte { return ethernet(broadcast, lan3.MAC, 0x88b5, []byte(s)) }, true},
		{"another's address", func(s string) []byte {
			return udpFrame(broadcast, lan1.MAC, addr("255.255.255.255"), lan3.IPv4, s)
		}, true},
		{"another's link-local address", func(s string) []byte {
			return udpFrame(mac{0x33, 0x33, 0, 0, 0, 0xfb}, lan1.MAC, addr("ff02::fb"), linkLocalOf(lan3.MAC), s)
		}, true},
		{"ARP in another's name", func(s string) []byte {
			return append(arpFrame(lan1.MAC, lan3.IPv4, addr("10.1.4.77")), s...)
		}, true},
		{"spanning tree", func(s string) []byte {
			return ethernet(mac{0x01, 0x80, 0xc2, 0, 0, 0}, lan1.MAC, 0x0027, []byte(s))
		}, true},
		{"spanning tree of one VLAN", func(s string) []byte {
			return ethernet(mac{0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcd}, lan1.MAC, 0x0032, []byte(s))
		}, true},
		{"registration of VLANs", func(s string) []byte {
			return ethernet(mac{0x01, 0x80, 0xc2, 0, 0, 0x21}, lan1.MAC, 0x88f5, []byte(s))
		}, true},
		{"connectivity faults", func(s string) []byte {
			return ethernet(mac{0x01, 0x80, 0xc2, 0, 0, 0x3f}, lan1.MAC, 0x8902, []byte(s))
		}, true},
		{"rings", func(s string) []byte {
			return ethernet(mac{0x01, 0x19, 0xa7, 0, 0, 1}, lan1.MAC, 0x8902, []byte(s))
		}, true},
		{"routers of IS-IS, which are no switches", func(s string) []byte {
			llc := append([]byte{0xfe, 0xfe, 0x03}, s...)
			return ethernet(mac{0x01, 0x80, 0xc2, 0, 0, 0x14}, lan1.MAC, uint16(len(llc)), llc)
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, fence := "text of "+t.Name(), "fence of "+t.Name()
			sender.send(test.frame(text))
			fences := map[string]struct{ from, to Endpoint }{
				lan2.ID: {lan1, lan2}, lan3.ID: {lan1, lan3}, lan1.ID: {lan3, lan1},
				lr1.ID: {lr2, lr1}, lr2.ID: {lr1, lr2}, web1.ID: {web2, web1},
			}
			for _, id := range []string{lan2.ID, lan3.ID, lan1.ID, lr1.ID, lr2.ID} {
				f := fences[id]
				all[f.from.ID].send(udpFrame(f.to.MAC, f.from.MAC, f.to.IPv4, f.from.IPv4, fence))
				member := id == lan2.ID || id == lan3.ID
				want := 0
				if member && !test.stays {
					want = 1
				}
				if got := all[id].got(fence, text); got != want {
					t.Errorf("%s gets it %d times, want %d", id, got, want)
				}
			}
		})
	}
}

func TestWhatComesOutOfTheTunnelIsFloodedHereAndNotBack(t *testing.T) {
	c := startBridged(t)
	n := c.pod(lan1).node
	arrival := packet{inPort: exampleTunnelPort, vni: lanBlue.VNI, src: lan2.MAC, dst: broadcast, from: lan2.IPv4, to: addr("10.1.4.255")}
	unknown := arrival
	unknown.dst = mac{2, 2, 10, 1, 4, 77}
	remote := arrival
	remote.dst = lan2.MAC
	flooded := n.verdict(t, arrival)
	if outputs := strings.Split(flooded, ","); len(outputs) != 2 || strings.Contains(flooded, "tnl_push") {
		t.Errorf("a broadcast goes to %s, want the two ports of the network", flooded)
	}
	if got := n.verdict(t, unknown); got != flooded {
		t.Errorf("a MAC that nobody has goes to %s, want %s", got, flooded)
	}
	if got := n.verdict(t, remote); got != "drop" {
		t.Errorf("a packet for another node goes to %s", got)
	}
}

func TestPolicyHoldsForEachReceiverOfAFlood(t *testing.T) {
	c := startCluster(t, lan1, lan2, lan3)
	c.program(rule("not-to-front", 50, func(r *Rule) { r.SrcGroup, r.DstGroup, r.Protocol, r.DstPort = front, front, 17, 9 }))
	sender, allowed, denied := c.pod(lan1).wire(), c.pod(lan2).wire(), c.pod(lan3).wire()
	expect := func(text string, frame []byte, wantAllowed, wantDenied int) {
		t.Helper()
		sender.send(frame)
		fence := "fence after " + text
		for w, want := range map[*wire]int{allowed: wantAllowed, denied: wantDenied} {
			other := udpFrame(w.pod.MAC, lan1.MAC, w.pod.IPv4, lan1.IPv4, fence)
			copy(other[36:], []byte{0, 10}) // another port
			sender.send(other)
			if got := w.got(fence, text); got != want {
				t.Errorf("%s gets %q %d times, want %d", w.pod.ID, text, got, want)
			}
		}
	}
	expect("direct", udpFrame(lan3.MAC, lan1.MAC, lan3.IPv4, lan1.IPv4, "direct"), 0, 0)
	// Linux accepts a packet for its own address in a broadcast frame.
	expect("by broadcast", udpFrame(broadcast, lan1.MAC, lan3.IPv4, lan1.IPv4, "by broadcast"), 1, 0)

	// And at the destination.
	c.program(rule("not-to-store", 50, func(r *Rule) { r.SrcGroup, r.DstGroup, r.Protocol, r.DstPort = front, store, 17, 9 }))
	c.programNode(c.pod(lan1).node)
	expect("to the other node", udpFrame(lan2.MAC, lan1.MAC, lan2.IPv4, lan1.IPv4, "to the other node"), 0, 0)
	expect("to all nodes", udpFrame(broadcast, lan1.MAC, lan2.IPv4, lan1.IPv4, "to all nodes"), 0, 1)
}

func TestAHubCarriesARPAndABridgeAnswersIt(t *testing.T) {
	c := startCluster(t, lan1, lan2, hub1, hub2)
	for _, test := range []struct {
		from, to Endpoint
		arrives  bool
	}{{lan1, lan2, false}, {hub1, hub2, true}} {
		asker, asked := c.pod(test.from).wire(), c.pod(test.to).wire()
		text := "asked by " + test.from.ID
		asker.send(append(arpFrame(test.from.MAC, test.from.IPv4, test.to.IPv4), text...))
		isAnswer := func(f []byte) bool {
			return bytes.Equal(f[12:14], []byte{8, 6}) && f[21] == 2 && bytes.Equal(f[22:28], test.to.MAC[:])
		}
		if asker.receive(soon, isAnswer) == nil {
			t.Errorf("%s gets no answer about %s", test.from.ID, test.to.ID)
		}
		asker.send(udpFrame(test.to.MAC, test.from.MAC, test.to.IPv4, test.from.IPv4, "fence"))
		got := asked.receive(soon, func(f []byte) bool { return carrying(text)(f) || carrying("fence")(f) })
		if arrived := carrying(text)(got); arrived != test.arrives {
			t.Errorf("%s sees the question: %v, want %v", test.to.ID, arrived, test.arrives)
		}
	}
	// Announcements are delivered where the switch does not answer ARP.
	asked := c.pod(hub2).wire()
	c.pod(hub1).wire().send(append(arpFrame(hub1.MAC, hub1.IPv4, hub1.IPv4), "announced"...))
	if asked.receive(soon, carrying("announced")) == nil {
		t.Error("a gratuitous ARP request does not arrive")
	}
}

// A rule that denies ICMP denies pings, of both IP families, but not neighbour discovery.
func TestRulesDoNotJudgeNeighbourDiscovery(t *testing.T) {
	c := startCluster(t, hub1, hub2)
	link := func(m mac) netip.Addr {
		return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
	}
	asker, asked := c.pod(hub1).wire(), c.pod(hub2).wire()
	ping := func(text string) []byte {
		return ipv6Frame(hub2.MAC, hub1.MAC, link(hub2.MAC), link(hub1.MAC), 58, 64, 2, append([]byte{128, 0, 0, 0, 0, 1, 0, 1}, text...))
	}
	asker.send(ping("before the rule"))
	if asked.receive(soon, carrying("before the rule")) == nil {
		t.Fatal("no ping arrives")
	}
	c.program(rule("no-icmp", 50, func(r *Rule) { r.Protocol = 1 }))
	asker.send(ping("denied"))
	routed := advertFrame(hub2.MAC, hub1.MAC, link(hub2.MAC), link(hub1.MAC), link(hub1.MAC), "denied, too")
	routed[21] = 64 // hop limit
	asker.send(routed)
	asker.send(solicitationFrame(hub1.MAC, link(hub1.MAC), link(hub2.MAC), true))
	var denied bool
	solicited := asked.receive(soon, func(f []byte) bool {
		denied = denied || carrying("denied")(f)
		return len(f) > 54 && bytes.Equal(f[12:14], []byte{0x86, 0xdd}) && f[54] == 135
	})
	if solicited == nil || denied {
		t.Errorf("a solicitation arrives: %v, a ping: %v", solicited != nil, denied)
	}
	text := "here I am"
	asked.send(advertFrame(hub1.MAC, hub2.MAC, link(hub1.MAC), link(hub2.MAC), link(hub2.MAC), text))
	if asker.receive(soon, carrying(text)) == nil {
		t.Error("the advertisement does not arrive")
	}
}

// The switch drops a packet that it has followed through too many tables.
func TestAFullFloodSetIsFlooded(t *testing.T) {
	c := startCluster(t, lan1)
	n := c.nodes[0]
	wants := c.wants(n)
	set := FloodSet{Network: lanRed.ID, VNI: lanRed.VNI, Tag: lanRed.Tag}
	for i := range MaxMembers {
		e := here(endpoint("many", lanRed, 1, 0))
		e.ID, e.MAC, e.IPv4 = fmt.Sprint("many", i), mac{2, 2, 10, 9, byte(i >> 8), byte(i)}, netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)})
		set.Members = append(set.Members, e.MAC)
		more := wantsOf(n.pipeline, e, uint32(1000+i))
		more.Meters = nil
		for j := range more.Flows {
			more.Flows[j].Meter = 0
		}
		wants.add(more)
	}
	for i := range 250 {
		set.VTEPs = append(set.VTEPs, netip.AddrFrom4([4]byte{192, 168, 3, byte(i)}))
	}
	wants.add(wantsOf(n.pipeline, lanRed, 0))
	wants.add(wantsOf(n.pipeline, set, 0))
	n.replace(t, wants)
	trace := n.Appctl("ofproto/trace", bridge, packet{inPort: 1000, src: mac{2, 2, 10, 9, 0, 0}, dst: broadcast,
		from: addr("10.9.0.0"), to: addr("255.255.255.255")}.String())
	if got := strings.Count(trace, "output:"); got < MaxMembers-1+len(set.VTEPs) || strings.Contains(trace, "resubmit actions") {
		t.Errorf("%d outputs, want %d:\n%.2000s", got, MaxMembers-1+len(set.VTEPs), trace[max(0, len(trace)-2000):])
	}
	set.Members = append(set.Members, mac{2, 2, 11})
	if _, err := n.pipeline.For(set, 0); err == nil || !strings.Contains(err.Error(), lanRed.ID) {
		t.Errorf("one member too many: %v", err)
	}
}

// A meter that drops a copy must not drop the copies after it.
func TestALimitedMemberTakesNothingFromTheOthers(t *testing.T) {
	slow := limited(lan3, Limits{Rate: 1, Burst: 1})
	c := startCluster(t, lan1, slow, lan2)
	sender, other := c.pod(lan1).wire(), c.pod(lan2).wire()
	for n := range 70 { // more than the meter has room for
		text := fmt.Sprintf("%s number %d.", strings.Repeat("to all of them ", 90), n)
		sender.send(udpFrame(broadcast, lan1.MAC, addr("255.255.255.255"), lan1.IPv4, text))
		if other.receive(soon, carrying(text)) == nil {
			t.Fatalf("number %d does not arrive", n)
		}
	}
}
