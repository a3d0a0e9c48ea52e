package pipeline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// Random worlds, on real switches, against an oracle that knows nothing of
// flows: every endpoint sends to every other, and what each of them receives is
// compared byte for byte. The oracle is in oracle_test.go.

func TestRandomWorldsFareAsTheOracleSays(t *testing.T)        { sendThroughWorlds(t, VXLAN, 5) }
func TestRandomWorldsOnVLANsFareAsTheOracleSays(t *testing.T) { sendThroughWorlds(t, VLAN, 5) }

func TestLongManyRandomWorldsFareAsTheOracleSays(t *testing.T) {
	testkit.TakesLong(t)
	sendThroughWorlds(t, VXLAN, 400) // half of their networks are routed
}

func TestLongManyRandomWorldsOnVLANsFareAsTheOracleSays(t *testing.T) {
	testkit.TakesLong(t)
	sendThroughWorlds(t, VLAN, 200)
}

// plugs are the ports of the three nodes together.
const plugs = 20

func sendThroughWorlds(t *testing.T, encap Encap, count int) {
	c := &cluster{t: t, pods: map[string]*pod{}, trunks: encap == VLAN}
	var wires []*wire
	for i := range plugs {
		wires = append(wires, c.plug(i))
	}
	c.settle()
	all := &mailbox{wires: wires, want: map[string][]byte{}, may: map[string][]byte{}, asked: map[string]probeFrame{}}
	for n := range count {
		seed := rand.Uint64()
		if n == 0 {
			t.Logf("worlds with %d ports on %d nodes", plugs, len(c.nodes))
		}
		w := newWorld(rand.New(rand.NewPCG(seed, 0)), encap, c.nodes)
		for _, node := range c.nodes {
			node.replace(t, w.wants(node))
		}
		sent := 0
		for i, p := range w.probes() {
			for part, frame := range p.frames() {
				id := fmt.Sprintf("<%d.%d.%d>", n, i, part)
				frame := append(frame, id...)
				if part > 0 { // of no use without the first one
					for to, arrived := range w.without(p, frame) {
						all.may[fmt.Sprintf("%s to %d", id, to)] = arrived
					}
				}
				for to, arrived := range w.receivers(p, frame) {
					all.want[fmt.Sprintf("%s to %d", id, to)] = arrived
				}
				all.asked[id] = p
				wires[p.from].send(frame)
				sent++
			}
			if sent >= 15 { // what the sockets on the way have room for
				all.read(t, soon)
				sent = 0
			}
		}
		all.read(t, soon)
		if t.Failed() {
			t.Fatalf("world %d, seed %d:\n%s", n, seed, w)
		}
	}
	all.read(t, 100*time.Millisecond) // what comes late and should not
}

// plug makes a port without a host behind it, which would have a say of its own.
func (c *cluster) plug(number int) *wire {
	c.t.Helper()
	n := c.nodeOf([]netip.Addr{vtep1, vtep2, vtep3}[number%3])
	port, name := uint32(10+number), fmt.Sprint("plug", number)
	n.Exec("ip", "link", "add", fmt.Sprint("v", port), "type", "veth", "peer", "name", name)
	for _, end := range []string{fmt.Sprint("v", port), name} {
		n.withoutIPv6(end)
		n.Exec("ip", "link", "set", end, "up")
	}
	n.Vsctl("add-port", bridge, fmt.Sprint("v", port), "--", "set", "interface", fmt.Sprint("v", port), fmt.Sprintf("ofport_request=%d", port))
	n.AwaitLink(fmt.Sprint("v", port))
	p := &pod{t: c.t, netns: n.Netns, node: n, port: port}
	p.ID = name
	return p.wireAt(name)
}

// mailbox compares what arrives at all wires with what should.
type mailbox struct {
	wires []*wire
	want  map[string][]byte     // "id to wire" -> the frame
	may   map[string][]byte     // the same, of what need not arrive
	asked map[string]probeFrame // by id
}

var probeID = regexp.MustCompile(`<\d+\.\d+\.\d+>`)

// read reads until everything that should has arrived, or for so long.
func (m *mailbox) read(t *testing.T, limit time.Duration) {
	t.Helper()
	buffer := make([]byte, 2048)
	fds := make([]unix.PollFd, len(m.wires))
	for deadline := time.Now().Add(limit); (len(m.want) > 0 || limit < soon) && time.Now().Before(deadline); {
		for i, w := range m.wires {
			fds[i] = unix.PollFd{Fd: int32(w.fd), Events: unix.POLLIN}
		}
		if _, err := unix.Poll(fds, 20); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
		for i, fd := range fds {
			if fd.Revents != 0 {
				m.take(t, i, buffer)
			}
		}
	}
	for key := range m.want {
		t.Errorf("missing: %s", m.describe(key))
	}
	clear(m.want)
}

func (m *mailbox) take(t *testing.T, number int, buffer []byte) {
	t.Helper()
	n, from, err := unix.Recvfrom(m.wires[number].fd, buffer, unix.MSG_DONTWAIT)
	if link, ok := from.(*unix.SockaddrLinklayer); err != nil || !ok || link.Pkttype == unix.PACKET_OUTGOING {
		return
	}
	key := fmt.Sprintf("%s to %d", probeID.Find(buffer[:n]), number)
	want, expected := m.want[key]
	if !expected {
		want, expected = m.may[key]
	}
	switch {
	case !expected:
		t.Errorf("too much: %s: %x", m.describe(key), buffer[:n])
	case !bytes.Equal(buffer[:n], want):
		t.Errorf("changed: %s:\n%x\nwant:\n%x", m.describe(key), buffer[:n], want)
	}
	delete(m.want, key)
}

func (m *mailbox) describe(key string) string {
	return fmt.Sprintf("%s: %s", key, m.asked[probeID.FindString(key)])
}

// wants is what a node's switch needs in a world.
func (w *world) wants(n *node) Wants {
	wants := n.pipeline.Base()
	for _, in := range w.networks {
		wants.add(wantsOf(n.pipeline, in, 0))
		if !in.Mode.Bridged() {
			continue
		}
		s := FloodSet{Network: in.ID, Encap: in.Encap, VNI: in.VNI, Tag: in.Tag}
		for _, e := range w.endpoints {
			if e.Network == in.ID && e.VTEP == n.vtep {
				s.Members = append(s.Members, e.MAC)
			} else if e.Network == in.ID && !slices.Contains(s.VTEPs, e.VTEP) {
				s.VTEPs = append(s.VTEPs, e.VTEP)
			}
		}
		wants.add(wantsOf(n.pipeline, s, 0))
	}
	for i, e := range w.endpoints {
		if e.VTEP == n.vtep {
			e = here(e)
		}
		wants.add(wantsOf(n.pipeline, e, uint32(10+i)))
	}
	for _, r := range w.rules {
		wants.add(wantsOf(n.pipeline, r, 0))
	}
	return wants.chosen()
}

// chosen settles rules with equal matches as a driver does.
func (w Wants) chosen() Wants {
	place := map[string]int{}
	var flows []openflow.Flow
	for _, f := range w.Flows {
		if i, taken := place[f.MatchKey()]; !taken {
			place[f.MatchKey()] = len(flows)
			flows = append(flows, f)
		} else if Preferred(f, flows[i]) {
			flows[i] = f
		}
	}
	w.Flows = flows
	return w
}
