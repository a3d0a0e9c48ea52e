package pipeline

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// Random frames of an endpoint: valid ones, with options, extension headers and in fragments of 8 to 40 bytes, and
// others with one flaw. The expected outcome of each is set where it is made; it contains marks, by which it is
// recognized at the receiver.

// outcome is what must happen to a frame.
type outcome int

const (
	arrives outcome = iota
	isDropped
	either // a later fragment after a dropped first one
)

// made is a frame with a unique mark; without one its arrival is not noticed.
type made struct {
	frame []byte
	mark  string
	to    string // receiver's endpoint id
	fate  outcome
	what  string
}

// maker makes frames of web1.
type maker struct {
	*rand.Rand
	marks int
}

// closedPort is a port that a rule denies; others are open.
const closedPort = 7001

// datagram is the content of frames. Its options and extension headers are before the fragment header or, in an
// unfragmented packet, before the payload.
type datagram struct {
	from, to   netip.Addr
	src, dst   mac
	tags       []byte // before the EtherType
	ethType    uint16
	before     []byte // options, extension headers
	protocol   byte
	ttl        byte
	missing    byte // words missing in the header length of IPv4
	lie        int  // added to the length
	transport  []byte
	fragmented int // bytes of each part; 0: whole
}

func (m *maker) flip() bool { return m.IntN(2) == 0 }

// mark returns a new mark, of the size of a fragment offset unit.
func (m *maker) mark() []byte {
	m.marks++
	return fmt.Appendf(nil, "m%06xm", m.marks)
}

var markPattern = regexp.MustCompile(`m[0-9a-f]{6}m`)

// draw makes the frames of one datagram of an IP family.
func (m *maker) draw(f family) []made {
	receiver := []Endpoint{web2, db1}[m.IntN(2)]
	d := datagram{src: web1.MAC, dst: receiver.MAC, from: web1.IPv4, to: receiver.IPv4, ttl: 64, ethType: f.ethType,
		protocol: []byte{openflow.ProtoUDP, openflow.ProtoTCP}[m.IntN(2)]}
	if f.ethType == openflow.EthTypeIPv6 {
		d.from, d.to = web1.IPv6, receiver.IPv6
	}
	if receiver.ID == db1.ID {
		d.dst = AnycastMAC
	}
	ports := [2]uint16{40000, 7000}
	if m.flip() {
		d.before = m.headers(f)
	}
	what, fate := "proper", arrives
	switch m.IntN(4) {
	case 0:
		ports[1] = closedPort
		what = "to a closed port"
		if receiver.ID == db1.ID {
			fate = isDropped
		}
	case 1, 2:
		what, fate = m.spoil(f, &d, &ports), isDropped
	}
	if d.transport == nil {
		d.transport = transportHeader(d.protocol, ports)
	}
	for range 1 + m.IntN(12) {
		d.transport = append(d.transport, m.mark()...)
	}
	if m.flip() {
		d.fragmented = 8 * (1 + m.IntN(5))
	}
	all := d.frames(uint32(m.marks), what)
	for i := range all {
		all[i].to, all[i].fate = receiver.ID, fate
		if i > 0 && (fate == isDropped && hidesInLater(what) || fate == arrives && firstIsShort(d)) {
			all[i].fate = either
		}
	}
	if firstIsShort(d) {
		all[0].fate = isDropped
	}
	return all
}

// hidesInLater reports whether only the first fragment has a flaw.
func hidesInLater(what string) bool {
	return slices.Contains([]string{"to a closed port", "a DHCP server", "discovery"}, what)
}

// firstIsShort reports whether the first fragment lacks fields that rules match.
func firstIsShort(d datagram) bool {
	return d.fragmented > 0 && d.protocol == openflow.ProtoTCP && d.fragmented < 24 && len(d.transport) > d.fragmented
}

// transportHeader returns a header with a size that is a multiple of 8.
func transportHeader(protocol byte, ports [2]uint16) []byte {
	b := make([]byte, 8, 24)
	if protocol == openflow.ProtoTCP {
		b = b[:24]
		b[12], b[13] = 6<<4, 2 // 24 bytes, a SYN
		b[20], b[21], b[22] = 1, 1, 1
	}
	binary.BigEndian.PutUint16(b, ports[0])
	binary.BigEndian.PutUint16(b[2:], ports[1])
	return b
}

// headers returns IPv4 options without effect, or IPv6 extension headers without the first byte's value.
func (m *maker) headers(f family) []byte {
	if f.ethType == openflow.EthTypeIPv4 {
		return bytes.Repeat([]byte{1}, 4*(1+m.IntN(10)))
	}
	var all []byte
	for range 1 + m.IntN(3) {
		all = append(all, 60, 0, 1, 4, 0, 0, 0, 0) // destination options: padding
	}
	return all
}

// spoil makes one flaw and returns its name.
func (m *maker) spoil(f family, d *datagram, ports *[2]uint16) string {
	pick := func(all ...string) netip.Addr { return netip.MustParseAddr(all[m.IntN(len(all))]) }
	is4 := f.ethType == openflow.EthTypeIPv4
	switch m.IntN(8) {
	case 0:
		d.src = []mac{web2.MAC, AnycastMAC, {2, 2, 10, 1, 1, byte(50 + m.IntN(100))}, entranceMAC}[m.IntN(4)]
		return "another MAC"
	case 1:
		if is4 {
			d.from = pick(web2.IPv4.String(), db1.IPv4.String(), "10.1.1.99", "10.1.1.254", "0.0.0.0", "127.0.0.1", "255.255.255.255", "224.0.0.1", "192.0.2.1")
		} else {
			d.from = pick(web2.IPv6.String(), db1.IPv6.String(), "fd00:1::99", webBlue.Gateway6.String(), "::", "::1", "fe80::1", "ff02::1", "::ffff:10.1.1.1")
		}
		return "another address"
	case 2:
		vid := m.IntN(4096)
		d.tags = []byte{0x81, 0, byte(vid >> 8), byte(vid)}
		if m.flip() {
			d.tags = append([]byte{0x88, 0xa8, 0, 1}, d.tags...)
		}
		return "a tag"
	case 3:
		d.ethType = []uint16{0x88b5, 0x0806, 0x8847, 0x88cc, 0x0801}[m.IntN(5)]
		return "another protocol"
	case 4:
		d.lie = 100 + m.IntN(1000)
		return "a length beyond its end"
	case 5:
		d.dst = []mac{broadcast, {1, 0, 0x5e, 0, 0, 1}, {0x33, 0x33, 0, 0, 0, 1}, {2, 9, 9, 9, 9, 9}}[m.IntN(4)]
		return "to another MAC"
	case 6:
		d.protocol = openflow.ProtoUDP
		server, client := uint16(dhcpServer), uint16(dhcpClient)
		if !is4 {
			server, client = dhcpServer6, dhcpClient6
		}
		*ports = [][2]uint16{{server, client}, {server, 9}, {4000, client}}[m.IntN(3)]
		return "a DHCP server"
	}
	if is4 {
		d.before, d.missing = nil, byte(1+m.IntN(5))
		return "a header that is too short"
	}
	// Messages that only routers may send, or about another endpoint's address, also after other headers.
	d.protocol = 58
	kind := []byte{ndRouterAdvert, ndRedirect, openflow.NDAdvert}[m.IntN(3)]
	d.transport = append([]byte{kind, 0, 0, 0, 0xe0, 0, 0, 0}, webBlue.Gateway6.AsSlice()...)
	d.ttl = 255
	return "discovery"
}

// frames returns the datagram in one frame, or its fragments.
func (d datagram) frames(id uint32, what string) (all []made) {
	size := len(d.transport)
	if d.fragmented > 0 {
		size = d.fragmented
	}
	for from := 0; from < len(d.transport); from += size {
		part := d.transport[from:min(from+size, len(d.transport))]
		frame := d.frame(id, from, part)
		all = append(all, made{frame: frame, mark: string(markPattern.Find(part)), what: what})
	}
	return all
}

// frame returns a frame with a part of the datagram, or with a flaw.
func (d datagram) frame(id uint32, at int, part []byte) []byte {
	more := uint16(0)
	if at+len(part) < len(d.transport) {
		more = 1
	}
	var ip []byte
	if d.from.Is4() {
		ip = d.ipv4(id, at, more, part)
	} else {
		ip = d.ipv6(id, at, more, part)
	}
	frame := slices.Concat(d.dst[:], d.src[:], d.tags)
	return append(binary.BigEndian.AppendUint16(frame, d.ethType), ip...)
}

func (d datagram) ipv4(id uint32, at int, more uint16, part []byte) []byte {
	words := byte(5 + len(d.before)/4)
	ip := []byte{0x40 | (words - d.missing), 0, 0, 0, byte(id >> 8), byte(id), 0, 0, d.ttl, d.protocol, 0, 0}
	ip = slices.Concat(ip, d.from.AsSlice(), d.to.AsSlice(), d.before)
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(part)+d.lie))
	binary.BigEndian.PutUint16(ip[6:], more<<13|uint16(at/8))
	binary.BigEndian.PutUint16(ip[10:], checksum(slices.Clone(ip)))
	return append(ip, part...)
}

func (d datagram) ipv6(id uint32, at int, more uint16, part []byte) []byte {
	chain, last := slices.Clone(d.before), d.protocol
	if d.fragmented > 0 {
		chain = binary.BigEndian.AppendUint32(append(chain, 44, 0, byte((uint16(at)|more)>>8), byte(uint16(at)|more)), id)
	}
	first := last
	if len(chain) > 0 {
		first = chain[0]
	}
	for i := 0; i < len(chain); i += 8 { // each has the type of the next
		if i+8 < len(chain) {
			chain[i] = chain[i+8]
		} else {
			chain[i] = last
		}
	}
	ip := []byte{0x60, 0, 0, 0, 0, 0, first, d.ttl}
	binary.BigEndian.PutUint16(ip[4:], uint16(len(chain)+len(part)+d.lie))
	return slices.Concat(ip, d.from.AsSlice(), d.to.AsSlice(), chain, part)
}

// theFrames repeats a test: its log has the seed.
var theFrames = flag.Uint64("frames", 0, "seed of the random frames")

func TestWhatAnEndpointSendsArrivesIfItIsProper(t *testing.T) { generate(t, 30) }

func TestLongThousandsOfFramesArriveIfTheyAreProper(t *testing.T) {
	testkit.TakesLong(t)
	generate(t, 2000)
}

func generate(t *testing.T, count int) {
	seed := cmp.Or(*theFrames, rand.Uint64())
	t.Logf("to repeat it: -frames %d", seed)
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 0))}
	c := startCluster(t, web1, web2, db1)
	c.program(rule("closed", 5, func(r *Rule) { r.SrcGroup, r.DstGroup, r.Protocol, r.DstPort = front, store, 17, closedPort }),
		rule("closed too", 6, func(r *Rule) { r.SrcGroup, r.DstGroup, r.Protocol, r.DstPort = front, store, 6, closedPort }))
	sender, receivers := c.pod(web1).wire(), []*wire{c.pod(web2).wire(), c.pod(db1).wire()}
	const batch = 10 // datagrams; the sockets on the path have room for these
	for _, f := range []family{ipv4(), ipv6()} {
		tally := map[string]int{}
		for range (count + batch - 1) / batch {
			sent, wanted, arrived := map[string]made{}, map[string]int{}, map[string]bool{}
			for range batch {
				for _, one := range m.draw(f) {
					sender.send(one.frame)
					tally[one.what]++
					if one.mark == "" {
						continue
					}
					if sent[one.mark] = one; one.fate == arrives {
						wanted[one.to]++
					}
				}
			}
			sender.send(udpFrame(web2.MAC, web1.MAC, web2.IPv4, web1.IPv4, "fence"))
			sender.send(udpFrame(AnycastMAC, web1.MAC, db1.IPv4, web1.IPv4, "fence"))
			for _, w := range receivers {
				fenced := false
				complete := func(frame []byte) bool {
					fenced = fenced || bytes.Contains(frame, []byte("fence"))
					mark := string(markPattern.Find(frame))
					switch one, known := sent[mark]; {
					case !known:
					case one.fate == isDropped || one.to != w.pod.ID || arrived[mark]:
						t.Errorf("%s arrives at %s: %x; that it has before: %v", one.what, w.pod.ID, one.frame, arrived[mark])
					case one.fate == arrives:
						wanted[one.to]--
						fallthrough
					default:
						arrived[mark] = true
					}
					return fenced && wanted[w.pod.ID] == 0
				}
				w.receive(soon, complete)
			}
			for _, one := range sent {
				if one.fate == arrives && !arrived[one.mark] {
					t.Errorf("lost, %s: %x", one.what, one.frame)
				}
			}
			if t.Failed() {
				return
			}
		}
		t.Logf("%#x: %v", f.ethType, tally)
	}
}
