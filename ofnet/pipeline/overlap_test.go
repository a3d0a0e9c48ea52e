package pipeline

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// Datagrams in fragments, of which one part is sent a second time with other ports, flags or payload. Policy
// judges the first fragment, and has nothing to go by where a later one says something else about the same bytes.
// So it is asked what the receiver's kernel makes of all that reaches it: nothing, or what was judged.

// span is what a fragment has of a datagram.
type span struct{ from, to int }

// rewritten is a datagram, and the part of it that is sent twice. Its sums are right with and without that.
type rewritten struct {
	datagram
	id       uint32
	to       Endpoint
	ports    int    // where the ports are
	header   int    // where the header ends that policy judges
	parts    []span // in the order in which they are sent
	again    span   // the part that is sent twice
	forged   []byte // the datagram as it would be with the other bytes
	position int    // how many parts are sent before those
	what     string
	arrives  bool // before those
	arrived  int
}

// openPort is one at which everything may arrive but the first packet of a connection by TCP.
const openPort = 7000

// largeFragment is the least that the tracker of the userspace datapath can be told to take; else that is 1200 bytes of
// IPv4, 1280 of IPv6. Smaller ones that are not the last of a datagram are invalid to it.
const largeFragment = 400

// mostFragments is how many of them it can be told to keep while their others are not there.
const mostFragments = 5000

// rewriterPort is that of the first sender; forged ones are odd.
const rewriterPort = 20000

// rewriterPorts is how many there are, more than datagrams of one run.
const rewriterPorts = 20000

// proper makes one that has nothing wrong yet, with so many marks behind its header; no other has its number.
func (m *maker) proper(f family, to Endpoint, protocol byte, number, marks int) *rewritten {
	d := &rewritten{to: to, id: uint32(number)}
	d.datagram = datagram{src: web1.MAC, dst: AnycastMAC, from: web1.IPv4, to: to.IPv4, ttl: 64, ethType: f.ethType, protocol: protocol}
	is6 := f.ethType == openflow.EthTypeIPv6
	if is6 {
		d.from, d.datagram.to = web1.IPv6, to.IPv6
	}
	d.transport = transportHeader(protocol, [2]uint16{rewriterPort + 2*uint16(number%rewriterPorts), openPort})
	for range marks {
		d.transport = append(d.transport, m.mark()...)
	}
	d.sum()
	if is6 && m.flip() { // destination options: padding
		d.ports, d.protocol = 8, 60
		d.transport = append([]byte{protocol, 0, 1, 4, 0, 0, 0, 0}, d.transport...)
	}
	d.header = len(d.transport) - 8*marks
	d.parts = []span{{0, len(d.transport)}}
	d.forged, d.position = d.transport, 1
	return d
}

// rewrite makes one in fragments, and what is to be sent besides.
func (m *maker) rewrite(f family, number, least int) *rewritten {
	d := m.proper(f, []Endpoint{db1, db2}[m.IntN(2)], []byte{openflow.ProtoUDP, openflow.ProtoTCP}[m.IntN(2)], number, least/8+1+m.IntN(min(least, 150)))
	d.fragmented = min(max(d.header, least+8*m.IntN(5)), len(d.transport)-8)
	d.parts = nil
	for from := 0; from < len(d.transport); from += d.fragmented {
		d.parts = append(d.parts, span{from, min(from+d.fragmented, len(d.transport))})
	}
	if m.flip() {
		m.Shuffle(len(d.parts), func(i, j int) { d.parts[i], d.parts[j] = d.parts[j], d.parts[i] })
	}
	d.position = m.IntN(len(d.parts) + 1)
	m.forge(d)
	return d
}

// sum fills in the length and the checksum of a transport header.
func (d *rewritten) sum() {
	all := d.transport
	sum := 16
	if d.protocol == openflow.ProtoUDP {
		sum = 6
		binary.BigEndian.PutUint16(all[4:], uint16(len(all)))
	} else {
		all[13] = byte(openflow.TCPAck)
		binary.BigEndian.PutUint32(all[4:], d.id)
	}
	pseudo := slices.Concat(d.from.AsSlice(), d.datagram.to.AsSlice(), []byte{0, d.protocol, byte(len(all) >> 8), byte(len(all))})
	binary.BigEndian.PutUint16(all[sum:], checksum(append(pseudo, all...)))
}

// most is how many units of 8 bytes are sent in one fragment.
const most = 150

// forge chooses the part that is sent twice, and what it says then. Words that change together leave the checksum as it is.
func (m *maker) forge(d *rewritten) {
	at := d.ports
	units := len(d.transport) / 8
	first := m.IntN(units)
	switch m.IntN(3) {
	case 0:
		first = 0
	case 1:
		first = 1
	}
	d.again = span{8 * first, 8 * (first + 1 + m.IntN(min(units-first, most)))}
	if first == 0 {
		d.again.to = max(d.again.to, d.header) // a shorter one is dropped, whatever it says
	}
	d.forged = slices.Clone(d.transport)
	header, covers := d.forged[at:d.header], func(from, to int) bool { return d.again.from <= at+from && at+to <= d.again.to }
	add := func(at int, n uint16) {
		binary.BigEndian.PutUint16(header[at:], binary.BigEndian.Uint16(header[at:])+n)
	}
	d.what = "payload"
	if len(header) == 24 && covers(8, 16) {
		d.what = "flags"
		header[13] = byte(openflow.TCPSyn)
		add(14, openflow.TCPAck-openflow.TCPSyn)
	}
	if covers(0, 4) {
		d.what = "ports"
		add(0, ^uint16(0)) // one less
		add(2, closedPort-openPort)
	}
	for i := max(d.header, d.again.from); i < d.again.to; i += 8 {
		d.forged[i], d.forged[i+1], d.forged[i+2], d.forged[i+3] = d.forged[i+2], d.forged[i+3], d.forged[i], d.forged[i+1]
	}
}

// frame is the part of a datagram that is sent as one.
func (d *rewritten) frame(of []byte, s span) []byte {
	return d.datagram.frame(d.id, s.from, of[s.from:s.to])
}

// isLate tells whether the datagram is complete before the other bytes come.
func (d *rewritten) isLate() bool { return d.position == len(d.parts) }

// crosses tells whether one fragment reaches into what has come before, and beyond: RFC 5722 has all of them dropped.
func (d *rewritten) crosses() bool {
	all := slices.Insert(slices.Clone(d.parts), d.position, d.again)
	come := make([]bool, len(d.transport))
	for _, s := range all {
		there := come[s.from:s.to]
		if slices.Contains(there, true) && slices.Contains(there, false) {
			return true
		}
		for i := range there {
			there[i] = true
		}
	}
	return false
}

// isJudged tells whether what is delivered has the header that policy has seen, and else what was sent at that place.
func (d *rewritten) isJudged(got []byte) bool {
	at := d.ports
	if len(got) != len(d.transport)-at || !bytes.Equal(got[:d.header-at], d.transport[at:d.header]) {
		return false
	}
	for i := d.header; i < len(d.transport); i += 8 {
		unit := got[i-at : i-at+8]
		if !bytes.Equal(unit, d.transport[i:i+8]) && !bytes.Equal(unit, d.forged[i:i+8]) {
			return false
		}
	}
	return true
}

// delivery is a datagram that the kernel of an endpoint has put together.
type delivery struct {
	to   string
	data []byte
}

// puts sends what the kernel of a pod delivers, of whatever port, until the test ends.
func (p *pod) puts(into chan<- delivery, networks ...string) {
	p.t.Helper()
	for _, network := range networks {
		var conn net.PacketConn
		err := p.inside(func() (err error) {
			conn, err = net.ListenPacket(network, "")
			return err
		})
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { _ = conn.Close() })
		go func() {
			for {
				data := make([]byte, 4096)
				n, _, err := conn.ReadFrom(data)
				if err != nil {
					return
				}
				into <- delivery{p.ID, data[:n]}
			}
		}()
	}
}

func TestNobodyRewritesWhatWasJudgedInAnOverlappingFragment(t *testing.T) { overlap(t, 40) }

func TestLongThousandsOfOverlappingFragmentsRewriteNothing(t *testing.T) {
	testkit.TakesLong(t)
	overlap(t, 350) // in six ways for each version of IP
}

func overlap(t *testing.T, count int) {
	c := startCluster(t, web1, db1, db2)
	for _, n := range c.nodes {
		n.Appctl("dpctl/ipf-set-max-nfrags", fmt.Sprint(mostFragments))
		for _, version := range []string{"v4", "v6"} {
			n.Appctl("dpctl/ipf-set-min-frag", version, fmt.Sprint(largeFragment))
		}
	}
	delivered := make(chan delivery, 1000)
	for _, e := range []Endpoint{db1, db2} {
		for _, name := range []string{"net.ipv4.ipfrag_high_thresh", "net.ipv6.ip6frag_high_thresh"} {
			if out, err := c.pod(e).exec("sysctl", "-qw", name+"=100000000"); err != nil {
				t.Fatalf("%s: %s", err, out)
			}
		}
		c.pod(e).puts(delivered, "ip4:udp", "ip4:tcp", "ip6:udp", "ip6:tcp")
	}
	closed := func(id string, priority int, change func(*Rule)) Rule {
		return rule(id, priority, func(r *Rule) {
			r.SrcGroup, r.DstGroup, r.DstPort = front, store, closedPort
			change(r)
		})
	}
	rules := []Object{closed("no UDP", 5, func(r *Rule) { r.Protocol = openflow.ProtoUDP }), closed("no TCP", 6, func(r *Rule) { r.Protocol = openflow.ProtoTCP }),
		closed("none begins", 7, func(r *Rule) { r.Protocol, r.DstPort, r.TCPFlags = openflow.ProtoTCP, openPort, "syn,!ack" })}
	mayAsk := withPorts(PortRange{openflow.ProtoUDP, openPort, openPort}, PortRange{openflow.ProtoTCP, openPort, openPort})
	number := 0 // of the next datagram: what is left of others with its number would spoil it
	for _, scene := range []struct {
		name    string
		tracked bool
		program func()
	}{
		{"judged packet by packet", false, func() { c.program(rules...) }},
		{"judged packet by packet behind the tracker", true, func() {
			c.classify(map[string]Tiers{web1.ID: Tracked, db1.ID: Tracked, db2.ID: Tracked})
			for _, n := range c.nodes {
				n.replace(t, c.wants(n, append(rules, Epoch{Number: 1})...).chosen())
			}
		}},
		{"judged as connections", true, func() {
			c.judge(map[string]Tiers{web1.ID: Tracked, db1.ID: JudgesIn | IsolatesIn, db2.ID: JudgesIn | IsolatesIn},
				allowing(false, classDB1, mayAsk), allowing(false, classDB2, mayAsk))
		}},
	} {
		t.Run(scene.name, func(t *testing.T) {
			scene.program()
			for _, f := range []family{ipv4(), ipv6()} {
				for _, least := range []int{8, largeFragment} {
					number = c.rewrites(t, f, number, count, least, scene.tracked, delivered)
				}
			}
		})
	}
}

// rewriting is what has been sent and has arrived, of one family in one scene.
type rewriting struct {
	t       *testing.T
	c       *cluster
	f       family
	m       *maker
	sender  *wire
	wires   map[string]*wire
	first   int // number of the first one
	known   []*rewritten
	tracked bool
	tally   map[string]int
}

// rewrites has web1 send so many of them.
func (c *cluster) rewrites(t *testing.T, f family, first, count, least int, tracked bool, delivered <-chan delivery) (next int) {
	seed := cmp.Or(*theFrames, rand.Uint64())
	t.Logf("to repeat it: -frames %d", seed)
	r := &rewriting{t: t, c: c, f: f, first: first, m: &maker{Rand: rand.New(rand.NewPCG(seed, 0))}, tracked: tracked, tally: map[string]int{},
		sender: c.pod(web1).wire(), wires: map[string]*wire{db1.ID: c.pod(db1).wire(), db2.ID: c.pod(db2).wire()}}
	const batch = 10 // datagrams; what the sockets on the way have room for
	for i := range (count + batch - 1) / batch {
		if i%10 == 0 {
			r.makeRoom(delivered)
		}
		var late []*rewritten
		for range batch {
			d := r.m.rewrite(f, r.next(), least)
			r.known = append(r.known, d)
			for i, s := range d.parts {
				if i == d.position {
					r.send(d, d.forged, d.again)
				}
				r.send(d, d.transport, s)
			}
			if d.isLate() {
				late = append(late, d)
				// The tracker does not put together what is small, or has options behind the fragment header.
				d.arrives = !tracked || least == largeFragment && d.ports == 0
			}
		}
		r.await(delivered, late...)
		for _, d := range late {
			r.send(d, d.forged, d.again)
		}
		r.await(delivered)
		if t.Failed() {
			break
		}
	}
	for _, d := range r.known {
		if len(d.parts) > 1 && d.arrived == 0 {
			r.tally[d.what+", nothing"]++
		}
	}
	t.Logf("%#x, fragments of %d bytes and more: %v", f.ethType, least, r.tally)
	return r.next()
}

func (r *rewriting) next() int { return r.first + len(r.known) }

// send waits for a fragment where it arrives: two processors may hand over what comes at once in another order. The tracker keeps
// fragments until it has all of a datagram.
func (r *rewriting) send(d *rewritten, of []byte, s span) {
	r.t.Helper()
	r.sender.send(d.frame(of, s))
	isForged := &of[0] == &d.forged[0]
	if r.tracked || isForged && s.from == 0 {
		return
	}
	if r.wires[d.to.ID].receive(soon, func(frame []byte) bool {
		r.passes(frame)
		return bytes.HasSuffix(frame, of[s.from:s.to])
	}) == nil {
		r.t.Fatalf("%s: the fragment from %d to %d of %x does not come", d.to.ID, s.from, s.to, of)
	}
}

// makeRoom waits until the tracker has given up most of the fragments that it keeps, which it does in 15 seconds when it is asked.
func (r *rewriting) makeRoom(delivered <-chan delivery) {
	r.t.Helper()
	for _, n := range r.c.nodes {
		if n.keptFragments() > mostFragments/2 {
			testkit.Eventually(r.t, soon, "the tracker gives fragments up", func() bool {
				r.await(delivered)
				return n.keptFragments() < mostFragments/4
			})
		}
	}
}

var keptPattern = regexp.MustCompile(`num frag: (\d+)`)

// keptFragments is how many the tracker keeps.
func (n *node) keptFragments() int {
	found := keptPattern.FindStringSubmatch(n.Appctl("dpctl/ipf-get-status"))
	if found == nil {
		return mostFragments
	}
	count, err := strconv.Atoi(found[1])
	if err != nil {
		return mostFragments
	}
	return count
}

// await waits for what has to arrive, and for a datagram of each protocol behind it.
func (r *rewriting) await(delivered <-chan delivery, all ...*rewritten) {
	r.t.Helper()
	for id, e := range map[string]Endpoint{db1.ID: db1, db2.ID: db2} {
		for _, protocol := range []byte{openflow.ProtoTCP, openflow.ProtoUDP} {
			d := r.m.proper(r.f, e, protocol, r.next(), 1)
			d.arrives = true
			r.known, all = append(r.known, d), append(all, d)
			r.sender.send(d.frame(d.transport, d.parts[0]))
		}
		last := r.known[len(r.known)-1].transport
		if r.wires[id].receive(soon, func(frame []byte) bool {
			r.passes(frame)
			return bytes.HasSuffix(frame, last)
		}) == nil {
			r.t.Fatalf("%s: the last datagram does not come", id)
		}
	}
	timeout := time.After(soon)
	for _, d := range all {
		for d.arrives && d.arrived == 0 {
			select {
			case got := <-delivered:
				r.judge(got)
			case <-timeout:
				r.t.Errorf("lost: %s to %s from %d on, %d of %d parts before: %x", d.what, d.to.ID, d.again.from, d.position, len(d.parts), d.transport)
				return
			}
		}
	}
}

// passes looks at a frame on its way to a receiver, who might make something else of it than the kernel does.
func (r *rewriting) passes(frame []byte) {
	r.t.Helper()
	for _, d := range r.known[max(0, len(r.known)-30):] {
		if d.again.from == 0 && d.again.to > 0 && bytes.Contains(frame, d.forged[d.ports:d.ports+8]) {
			r.t.Errorf("a first fragment to a closed port passes: %x", frame)
		}
	}
}

func (r *rewriting) judge(got delivery) {
	r.t.Helper()
	port := (int(binary.BigEndian.Uint16(got.data)) - rewriterPort + 1) / 2
	number := (port - r.first%rewriterPorts + rewriterPorts) % rewriterPorts
	if port < 0 || number >= len(r.known) {
		r.t.Errorf("%s gets %x", got.to, got.data)
		return
	}
	d := r.known[number]
	d.arrived++
	isProper := bytes.Equal(got.data, d.transport[d.ports:])
	switch {
	case got.to != d.to.ID, d.arrived > 1, !d.isJudged(got.data), d.arrives && !isProper:
		r.t.Errorf("%s is delivered to %s as number %d: %x, sent to %s were %x, from %d to %d also %x", d.what, got.to, d.arrived, got.data, d.to.ID, d.transport, d.again.from, d.again.to, d.forged)
	case d.crosses() && r.f.ethType == openflow.EthTypeIPv6 && !r.tracked && d.again.from > 0:
		r.t.Errorf("%s overlaps from %d to %d and is delivered: %v before %d", d.what, d.again.from, d.again.to, d.parts, d.position)
	case len(d.parts) == 1:
	case isProper:
		r.tally[d.what+", unchanged"]++
	default:
		r.tally[d.what+", with the other payload"]++
	}
}
