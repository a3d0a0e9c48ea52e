package pipeline

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// Random worlds, on real switches, against an oracle without flows: every endpoint sends to every other, and what
// each of them receives is compared byte for byte. The worlds are in world_test.go, the packets in probe_test.go,
// the oracle in the files of that name. One world in twenty has thousands of rules instead of its own, which are
// in manyrules_test.go, and isolated endpoints, in finalworlds_test.go; one in three has classes, in
// classworlds_test.go, and one in three has connections that are older than its rules, in oldworlds_test.go.

// The short test sends only a part of all frames.
func TestRandomWorldsFareAsTheOracleSays(t *testing.T) { sendThroughWorlds(t, 6, 20) }

func TestLongManyRandomWorldsFareAsTheOracleSays(t *testing.T) {
	testkit.TakesLong(t)
	sendThroughWorlds(t, 200, 100)
}

// theWorld repeats one world: a failed test prints its seed.
var theWorld = flag.Uint64("world", 0, "seed of the only random world")

// plugs is the number of endpoints' ports on the three nodes together.
const plugs = 20

// sendThroughWorlds sends share of a hundred probes through each of count worlds.
func sendThroughWorlds(t *testing.T, count, share int) {
	for _, l := range landscapes {
		t.Run(l.name, func(t *testing.T) {
			c, wires := settle(t, l)
			m := &mailbox{wires: wires, late: map[string]bool{}}
			if *theWorld != 0 {
				count = 1
			}
			for i := range count {
				seed := rand.Uint64()
				if *theWorld != 0 {
					seed = *theWorld
				}
				made := func() *world { return newWorld(rand.New(rand.NewPCG(seed, 0)), l, c.nodes) }
				w := made()
				c.live(t, w, m, share)
				if i%20 == 0 && !t.Failed() {
					c.judgedByThousands(t, made(), m)
				}
				if i%20 == 0 && !t.Failed() {
					c.judgedFinally(t, made(), m)
				}
				if i%3 == 0 && !t.Failed() {
					c.judgedByClasses(t, made(), m)
				}
				if (i%3 == 1 || *theWorld != 0) && !t.Failed() {
					c.judgedAnew(t, made(), m)
				}
				if t.Failed() {
					t.Fatalf("to repeat it: go test ./ofnet/pipeline -run '%s' -world %d\n%s", t.Name(), seed, w)
				}
			}
			m.read(t, 100*time.Millisecond) // late frames that must not arrive
		})
	}
}

// settle starts three nodes with all wires of a landscape.
func settle(t *testing.T, l landscape) (*cluster, []*wire) {
	c := &cluster{t: t, pods: map[string]*pod{}, trunks: l.encap == VLAN}
	var wires []*wire
	var zones []uint16
	for _, vrf := range []uint16{1, 2, SharedVRF} {
		of := Zones(vrf)
		zones = append(zones, of[:]...)
	}
	for i := range plugs {
		wires = append(wires, c.plug(i%3, uint32(10+i)))
	}
	for i := range c.nodes {
		if l.routes() {
			wires = append(wires, c.plug(i, hostPort))
		}
	}
	for b := range 2 {
		if l.routes() && l.encap == VLAN {
			wires = append(wires, c.outsider(borderOf(b).MAC))
		}
	}
	for _, n := range c.nodes {
		n.KeepConnections(zones...)
	}
	c.settle()
	return c, wires
}

// live sends the packets of a world's endpoints.
func (c *cluster) live(t *testing.T, w *world, m *mailbox, share int) {
	m.forget()
	for _, n := range c.nodes {
		n.replace(t, w.wants(n))
		n.Appctl("dpctl/flush-conntrack")
	}
	probes := w.probes()
	m.exchange(t, w, probes[:len(probes)*share/100])
	if len(w.services) == 0 || t.Failed() {
		return
	}
	w.talk(t, m, w.newTalks())
	for i, s := range w.services {
		w.services[i] = w.provided(s)
	}
	for _, n := range c.nodes {
		n.replace(t, w.wants(n))
	}
	w.talk(t, m, w.newTalks())
}

// talk makes clients open new connections and continue existing ones, and providers answer.
func (w *world) talk(t *testing.T, m *mailbox, more []talk) {
	w.talks = append(w.talks, more...)
	var requests, answers []probeFrame
	for _, t := range w.talks {
		requests = append(requests, w.request(t))
	}
	for i, at := range m.exchange(t, w, requests) {
		if len(at) == 1 {
			w.talks[i].provider = at[0]
		}
	}
	if t.Failed() {
		return // connections expire while frames are waited for
	}
	w.talks = slices.DeleteFunc(w.talks, func(t talk) bool { return t.provider < 0 })
	for _, t := range w.talks {
		answers = append(answers, w.answer(t))
	}
	for i, at := range m.exchange(t, w, answers) {
		w.talks[i].answered = w.talks[i].answered || len(at) == 1
	}
}

// plug creates a port without a host, which would send packets of its own.
func (c *cluster) plug(node int, port uint32) *wire {
	c.t.Helper()
	n := c.nodeOf([]netip.Addr{vtep1, vtep2, vtep3}[node])
	name := fmt.Sprint("plug", port)
	n.cable(fmt.Sprint("v", port), name)
	n.Vsctl("add-port", bridge, fmt.Sprint("v", port), "--", "set", "interface", fmt.Sprint("v", port), fmt.Sprintf("ofport_request=%d", port))
	n.AwaitLink(fmt.Sprint("v", port))
	return c.wire(n, name)
}

// outsider creates an end of the cable of all nodes.
func (c *cluster) outsider(at mac) *wire {
	c.t.Helper()
	hub := c.nodes[0]
	hub.cabled++
	end, name := fmt.Sprint("cable", hub.cabled), fmt.Sprint("outside", hub.cabled)
	hub.cable(end, name)
	hub.Exec("ip", "link", "set", name, "address", net.HardwareAddr(at[:]).String())
	hub.Exec("ip", "link", "set", end, "master", "cable")
	hub.AwaitLink(end)
	return c.wire(hub, name)
}

// cable creates a link.
func (n *node) cable(one, other string) {
	n.Exec("sh", "-ec", `
ip link add "$1" type veth peer name "$2"
for end; do
	echo 1 > "/proc/sys/net/ipv6/conf/$end/disable_ipv6"
	ip link set "$end" up
done`, "sh", one, other)
}

func (c *cluster) wire(n *node, link string) *wire {
	p := &pod{t: c.t, netns: n.Netns, node: n}
	p.ID = link
	return p.wireAt(link)
}

// wants returns what a node's switch needs in a world.
func (w *world) wants(n *node) Wants {
	wants, local := n.pipeline.Base(), func(e Endpoint) bool { return e.VTEP == n.vtep }
	for _, in := range w.networks {
		wants.add(wantsOf(n.pipeline, in, 0))
		if in.Mode.Bridged() {
			wants.add(wantsOf(n.pipeline, w.floodSet(in, local), 0))
		}
	}
	for i, e := range w.endpoints {
		if local(e) {
			e = here(e)
			e.Private = wayOut.Prefix
		}
		wants.add(wantsOf(n.pipeline, e, uint32(10+i)))
	}
	for _, r := range w.rules {
		wants.add(wantsOf(n.pipeline, r, 0))
	}
	for _, r := range w.tierRules {
		wants.add(wantsOf(n.pipeline, r, 0))
	}
	if w.epoch != 0 {
		wants.add(wantsOf(n.pipeline, Epoch{Number: w.epoch}, 0))
	}
	for _, s := range w.services {
		wants.add(wantsOf(n.pipeline, s, 0))
	}
	for _, o := range w.waysOut(n) {
		wants.add(wantsOf(n.pipeline, o, hostPort))
	}
	return wants.chosen()
}

// floodSet returns the members of a network as a node knows them.
func (w *world) floodSet(in Network, local func(Endpoint) bool) FloodSet {
	s := FloodSet{Network: in.ID, Encap: in.Encap, VNI: in.VNI, Tag: in.Tag}
	for _, e := range w.endpoints {
		if e.Network == in.ID && local(e) {
			s.Members = append(s.Members, e.MAC)
		} else if e.Network == in.ID && !slices.Contains(s.VTEPs, e.VTEP) {
			s.VTEPs = append(s.VTEPs, e.VTEP)
		}
	}
	return s
}

// chosen resolves flows with equal matches as a driver does.
func (w Wants) chosen() Wants {
	place := map[string]int{}
	var flows []openflow.Flow
	for _, f := range w.Flows {
		i, taken := place[f.MatchKey()]
		switch {
		case !taken:
			place[f.MatchKey()] = len(flows)
			flows = append(flows, f)
		default:
			if united, ok := Merge(f, flows[i]); ok {
				flows[i] = united
			} else if Preferred(f, flows[i]) {
				flows[i] = f
			}
		}
	}
	w.Flows = flows
	return w
}
