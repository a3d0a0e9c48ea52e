package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// TestLongAFloodCostsNeighboursNothing has a pod flood with one kind of packets after the other. A neighbour on
// its node that sends a datagram per millisecond to another node and back loses no more than beside as many
// ordinary datagrams.
func TestLongAFloodCostsNeighboursNothing(t *testing.T) {
	testkit.TakesLong(t)
	tellOn(t, testbed.Config{Nodes: 2, First: true}, []chapter{
		{"in a routed network: ARP, neighbour solicitations, unknown unicast, broadcast, pings, names, new connections", floodsAreRouted},
		{"in a bridged network, where ARP is flooded, too", floodsAreBridged},
	})
}

// Of a flood: packets per second, far more than guards let pass and far less than what a busy machine can forward;
// how long; and how often it is compared with ordinary datagrams, where the machine itself may lose some.
const (
	stormRate   = 10_000
	stormTime   = 3 * time.Second
	stormRounds = 3
)

// Meters by what they guard: the number of each is the sum of one of these and the port's.
const (
	ofAnswers = 0
	ofNames   = 196_864
	ofCopies  = 197_888
	noMeter   = -1
)

// guardedFlood is a kind of flood, its destination, and the counter of its drops: a reason, or else a meter of its
// port.
type guardedFlood struct {
	kind, to string
	reason   string
	meter    int
}

// flooded are the pods of a network: all but far are on the same node.
type flooded struct {
	story
	flooder, taker, neighbour, far *testbed.Pod
}

const (
	takerVIP, takerVIP6   = "10.1.7.200", "fd00:7::200"
	nobodyVIP, nobodyVIP6 = "10.1.7.201", "fd00:7::201"
)

func floodsAreRouted(s story) {
	s.tenant("blue")
	s.blueNetwork("lan", "-s 10.1.7.0/24 -g 10.1.7.254 -s6 fd00:7::/64 -g6 fd00:7::fe")
	s.service("taker", "lan", takerVIP, takerVIP6, " -p 9000:9000:UDP")
	s.service("nobody", "lan", nobodyVIP, nobodyVIP6, " -p 9000:9000:TCP")
	f := s.flooded()
	gateway, taker := f.flooder.Gateway.String(), f.taker.IP.String()
	f.costNothing([]guardedFlood{
		{kind: "arp", to: gateway, meter: ofAnswers},
		{kind: "nd", to: "fd00:7::fe", meter: ofAnswers},
		{kind: "echo", to: gateway, meter: ofAnswers},
		{kind: "syn", to: nobodyVIP, meter: ofAnswers},
		{kind: "dns", to: gateway, meter: ofNames},
		{kind: "unicast", to: taker, reason: "wrong MAC"},
		{kind: "broadcast", to: taker, reason: "multicast"},
		{kind: "flows", to: taker, meter: noMeter},
		{kind: "flows", to: takerVIP, meter: noMeter},
	})
}

func floodsAreBridged(s story) {
	s.netctlForNow("global set --fwd-mode bridge --arp-mode flood", "global set --fwd-mode routing --arp-mode proxy")
	s.tenant("blue")
	s.blueNetwork("lan", "-s 10.1.9.0/24 -s6 fd00:9::/64")
	f := s.flooded()
	taker := f.taker.IP.String()
	f.costNothing([]guardedFlood{
		{kind: "arp", to: taker, meter: ofCopies},
		{kind: "nd", to: "fd00:9::fe", meter: ofCopies},
		{kind: "unicast", to: taker, meter: ofCopies},
		{kind: "broadcast", to: taker, meter: ofCopies},
		{kind: "dns", to: wellKnown4, meter: ofNames},
		{kind: "flows", to: taker, meter: noMeter},
	})
}

func (s story) flooded() flooded {
	s.Helper()
	f := flooded{story: s, flooder: s.pod(0, "flooder", "blue", "lan", ""), taker: s.provider(0, "taker", "lan", "taker"),
		neighbour: s.pod(0, "neighbour", "blue", "lan", ""), far: s.pod(1, "far", "blue", "lan", "")}
	f.goesOn()
	return f
}

// goesOn expects the state before a flood: pods reach each other, agents are ready, and no packet waits to be
// read.
func (f flooded) goesOn() {
	f.Helper()
	f.reachEachOther(shortly, f.flooder, f.taker, f.neighbour, f.far)
	for _, n := range f.bed.Nodes {
		f.must(n.WaitReady(f.ctx))
		f.soon(shortly, func() error { return f.nothingWaits(n) })
	}
}

// nothingWaits returns an error for a socket of a node with unread packets: its switch's, its name server's.
func (f flooded) nothingWaits(n *testbed.Node) error {
	const sockets = "ss -0uw -anHO; ip netns exec contiv-dns-vxlan ss -u -anHO"
	out, err := n.Run(f.ctx, "sh", "-ec", sockets)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] != "0" {
			return fmt.Errorf("on %s bytes wait at a socket: %s", n.Name, line)
		}
	}
	return nil
}

func (f flooded) costNothing(floods []guardedFlood) {
	f.Helper()
	port := f.portOf(f.flooder)
	for _, k := range floods {
		dropped := func() int { return f.dropped(k, port) }
		before := dropped()
		f.costsNothing(k)
		if k.reason != "" || k.meter != noMeter {
			f.soon(shortly, func() error { // the switch counts a moment behind
				if now := dropped(); now <= before {
					return fmt.Errorf("%s about %s: its guard has dropped %d before and %d after it", k.kind, k.to, before, now)
				}
				return nil
			})
		}
		f.goesOn()
	}
}

// costsNothing compares a flood with ordinary datagrams, unless nothing is lost beside it.
func (f flooded) costsNothing(k guardedFlood) {
	f.Helper()
	var compared []string
	for range stormRounds {
		lost := f.lostBeside(k.kind, k.to)
		if lost == 0 {
			return
		}
		ordinary := f.lostBeside("udp", f.taker.IP.String())
		if lost <= ordinary {
			return
		}
		compared = append(compared, fmt.Sprintf("%d, and %d beside ordinary datagrams", lost, ordinary))
	}
	f.Errorf("beside %s about %s the neighbour loses %s", k.kind, k.to, strings.Join(compared, "; "))
}

// lostBeside returns the neighbour's losses while the flooder sends.
func (f flooded) lostBeside(kind, to string) int {
	f.Helper()
	r := f.during(f.neighbour, f.far, func() {
		out, err := f.flooder.Run(f.ctx, f.flooder.Probe(), "storm", "-kind", kind, "-to", to, "-rate", strconv.Itoa(stormRate), "-for", stormTime.String())
		f.must(err)
		f.Logf("%s about %s: %s", kind, to, strings.TrimSpace(out))
	})
	if r.Sent == 0 {
		f.Fatal("the neighbour has sent nothing")
	}
	return r.Lost
}

// dropped returns how many packets from a port the guard against a flood has dropped up to now.
func (f flooded) dropped(k guardedFlood, port int) int {
	f.Helper()
	switch {
	case k.reason != "":
		got, err := agentTells(f.ctx, f.flooder.Node, "/inspect/drops")
		f.must(err)
		var bridges map[string]map[string]struct{ Packets int }
		f.must(json.Unmarshal([]byte(got.body), &bridges))
		return bridges["contivVxlanBridge"][k.reason].Packets
	case k.meter == noMeter:
		return 0
	}
	out, err := f.flooder.Node.Run(f.ctx, "ovs-ofctl", "-O", "OpenFlow13", "meter-stats", "contivVxlanBridge", fmt.Sprint("meter=", k.meter+port))
	f.must(err)
	band := meterBand.FindStringSubmatch(out)
	if band == nil {
		f.Fatalf("meter %d of %s: %s", k.meter+port, f.flooder.Name, out)
	}
	packets, err := strconv.Atoi(band[1])
	f.must(err)
	return packets
}

// meterBand finds the drops of a meter.
var meterBand = regexp.MustCompile(`\n\s*0: packet_count:(\d+)`)

// portOf returns the number of a pod's port at the switch.
func (f flooded) portOf(pod *testbed.Pod) int {
	f.Helper()
	id, _ := f.endpointCounts(pod)
	out, err := pod.Node.Run(f.ctx, "ovs-vsctl", "--timeout=10", "--bare", "--columns=ofport", "find", "interface", "external_ids:endpoint-id="+id)
	f.must(err)
	port, err := strconv.Atoi(strings.TrimSpace(out))
	f.must(err)
	return port
}
