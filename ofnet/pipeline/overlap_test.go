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

// Fragmented datagrams of which one part is sent a second time with other ports, flags or payload. Policy
// evaluates the first fragment, and cannot match a later one with other content for the same bytes. So the test
// checks what the receiver's kernel delivers: nothing, or what was evaluated.

// span is the range of a fragment in its datagram.
type span struct{ from, to int }

// rewritten is a datagram, and the part of it that is sent twice. Its checksums are correct with either content.
type rewritten struct {
	datagram
	id       uint32
	to       Endpoint
	ports    int    // offset of the ports
	header   int    // end of the header that policy evaluates
	parts    []span // in the order of sending
	again    span   // the part that is sent twice
	forged   []byte // the datagram with the other content
	position int    // number of parts sent before the forged one
	what     string
	arrives  bool // before the forged part
	arrived  int
}

// openPort is a port at which everything is allowed except the first packet of a TCP connection.
const openPort = 7000

// largeFragment is the least minimum size of fragments that can be configured for the tracker of the userspace
// datapath; the default is 1200 bytes for IPv4, 1280 for IPv6. Smaller ones, except the last of a datagram, are
// invalid.
const largeFragment = 400

// mostFragments is the largest number of incomplete datagrams' fragments that it can be configured to keep.
const mostFragments = 5000

// rewriterPort is the first source port; those of forged parts are odd.
const rewriterPort = 20000

// rewriterPorts is the number of source ports, more than the datagrams of one run.
const rewriterPorts = 20000

// proper returns a datagram without a flaw, with a number of its own and so many marks after its header.
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

// rewrite returns a fragmented datagram and its forged part.
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

// sum sets the length and the checksum of a transport header.
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

// most is the largest number of 8-byte units in one fragment.
const most = 150

// forge chooses the part that is sent twice, and its other content. Words that change together leave the checksum
// unchanged.
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
		d.again.to = max(d.again.to, d.header) // a shorter one is dropped, whatever its content
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
		add(0, ^uint16(0)) // subtracts 1
		add(2, closedPort-openPort)
	}
	for i := max(d.header, d.again.from); i < d.again.to; i += 8 {
		d.forged[i], d.forged[i+1], d.forged[i+2], d.forged[i+3] = d.forged[i+2], d.forged[i+3], d.forged[i], d.forged[i+1]
	}
}

// frame returns a frame with a part of the datagram.
func (d *rewritten) frame(of []byte, s span) []byte {
	return d.datagram.frame(d.id, s.from, of[s.from:s.to])
}

// isLate reports whether the datagram is complete before the forged part.
func (d *rewritten) isLate() bool { return d.position == len(d.parts) }

// crosses reports whether a fragment partly overlaps earlier ones: RFC 5722 requires that all of them are dropped.
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

// isJudged reports whether a delivered datagram has the header that policy has evaluated, and elsewhere one of the
// contents that were sent.
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

// delivery is a datagram that the kernel of an endpoint has reassembled.
type delivery struct {
	to   string
	data []byte
}

// puts sends the datagrams that the kernel of a pod delivers, of all ports, until the test ends.
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
	overlap(t, 350) // in six ways for each IP family
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
	number := 0 // of the next datagram: remaining fragments of others with its number would corrupt it
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

// rewriting is the state of one family in one scene: what was sent and has arrived.
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

// rewrites makes web1 send count datagrams.
func (c *cluster) rewrites(t *testing.T, f family, first, count, least int, tracked bool, delivered <-chan delivery) (next int) {
	seed := cmp.Or(*theFrames, rand.Uint64())
	t.Logf("to repeat it: -frames %d", seed)
	r := &rewriting{t: t, c: c, f: f, first: first, m: &maker{Rand: rand.New(rand.NewPCG(seed, 0))}, tracked: tracked, tally: map[string]int{},
		sender: c.pod(web1).wire(), wires: map[string]*wire{db1.ID: c.pod(db1).wire(), db2.ID: c.pod(db2).wire()}}
	const batch = 10 // datagrams; the sockets on the path have room for these
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
				// The tracker does not reassemble small fragments, or those with options after the fragment header.
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

// send waits until a fragment has arrived: two processors may deliver fragments sent together in another order.
// The tracker keeps fragments until it has the whole datagram.
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

// makeRoom waits until the tracker has dropped most of the fragments that it keeps, which it does after 15
// seconds, with the next packet.
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

// keptFragments returns the number of fragments that the tracker keeps.
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

// await waits for the expected datagrams, and for one of each protocol sent after them.
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

// passes checks a frame on its way to a receiver, which might reassemble it differently from the kernel.
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
