package pipeline

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// world is networks, endpoints and rules as chance made them. The endpoint with
// number i is at port 10+i, on node i%3.
type world struct {
	lawless   bool // no rule counts
	networks  []Network
	endpoints []Endpoint
	rules     []Rule
	rand      *rand.Rand
}

func (w *world) String() string {
	var b strings.Builder
	for _, n := range w.networks {
		fmt.Fprintf(&b, "network %s mode %d gateways %s %s\n", n.ID, n.Mode, n.Gateway, n.Gateway6)
	}
	for i, e := range w.endpoints {
		fmt.Fprintf(&b, "endpoint %d %s %s %s group %d\n", i, e.Network, e.IPv4, e.IPv6, e.Group)
	}
	for _, r := range w.rules {
		fmt.Fprintf(&b, "rule %+v\n", r)
	}
	return b.String()
}

// chance is true so many times of a hundred.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// newWorld makes two tenants with the same subnets, networks of all modes that an
// encapsulation has, and rules, some of equal priorities.
func newWorld(r *rand.Rand, encap Encap, nodes []*node) *world {
	w := &world{rand: r}
	var onlyIPv6 []bool // by network
	for tag := range uint16(4) {
		tenant := tag / 2
		n := network(fmt.Sprintf("n%d.t%d", tag%2, tenant), fmt.Sprint("t", tenant), tenant+1, tag+1, fmt.Sprint(tag%2+1))
		n.Mode = pick(r, Routed, Routed, BridgedProxy, BridgedFlood)
		if n.Encap = encap; encap == VLAN {
			n.VNI, n.Mode = 0, pick(r, BridgedProxy, BridgedFlood)
		}
		if chance(r, 20) {
			n.Gateway = netip.Addr{}
		}
		if chance(r, 20) {
			n.Gateway6 = netip.Addr{}
		}
		if onlyIPv6 = append(onlyIPv6, chance(r, 15)); onlyIPv6[tag] {
			n.Gateway = netip.Addr{}
		}
		w.networks = append(w.networks, n)
	}
	for i := range plugs {
		in := pick(r, w.networks...)
		e := endpoint(fmt.Sprint("e", i), in, byte(i+1), uint16(r.IntN(4)))
		e.VTEP = nodes[i%len(nodes)].vtep
		if onlyIPv6[in.Tag-1] {
			e.IPv4 = netip.Addr{}
		} else if chance(r, 20) {
			e.IPv6 = netip.Addr{}
		}
		w.endpoints = append(w.endpoints, e)
	}
	for i := range r.IntN(31) {
		w.rules = append(w.rules, w.newRule(i, 1+r.IntN(MaxPriority/4)))
	}
	return w
}

func (w *world) newRule(number, priority int) Rule {
	r := w.rand
	prefixes := []netip.Prefix{{}, {}, {}, {}, prefix("10.1.1.0/24"), prefix("10.1.2.4/30"), prefix("fd00:1::/64"),
		openflow.Host(pick(r, w.endpoints...).IPv4)}
	rule := Rule{
		ID: fmt.Sprint("r", number), Priority: priority, Allow: chance(r, 50),
		SrcGroup: uint16(r.IntN(4)), DstGroup: uint16(r.IntN(4)), Protocol: pick[uint8](r, 0, 1, 6, 6, 17, 132),
		Src: pick(r, prefixes...), Dst: pick(r, prefixes...),
	}
	if rule.Protocol == 6 || rule.Protocol == 17 {
		rule.SrcPort, rule.DstPort = pick[uint16](r, 0, 0, 0, 80), pick[uint16](r, 0, 0, 80, 53)
	}
	if rule.Protocol == 6 && chance(r, 40) {
		rule.TCPFlags = "syn,!ack"
	}
	if rule.Src.IsValid() && rule.Dst.IsValid() && rule.Src.Addr().Is4() != rule.Dst.Addr().Is4() {
		rule.Dst = netip.Prefix{}
	}
	if six := prefix("fd00:1::/64"); chance(r, 30) && rule.Dst == prefix("10.1.1.0/24") {
		rule.Dst6 = six // a network of both versions of IP
	}
	return rule
}

// probeFrame is a frame and what it says.
type probeFrame struct {
	from       int
	to         netip.Addr
	toMAC      mac
	protocol   uint8 // 0: an ARP request
	src, dst   uint16
	syn, ack   bool
	sender     netip.Addr
	viaGateway bool
	size       int // bytes behind the IP header
	frame      []byte
}

// frames are the frame, or its fragments if it does not fit into the MTU.
func (p probeFrame) frames() [][]byte {
	if len(p.frame) <= 14+probeMTU {
		return [][]byte{p.frame}
	}
	return fragments(p.frame, probeMTU)
}

// probeMTU leaves room for the ids that are behind the packets.
const probeMTU = 1400

func (p probeFrame) String() string {
	return fmt.Sprintf("from %d to %s at %x, protocol %d, ports %d and %d, syn %v, ack %v, %d bytes", p.from, p.to, p.toMAC, p.protocol, p.src, p.dst, p.syn, p.ack, p.size)
}

// probes are from every endpoint to the addresses of every other, and to nobody
// and everybody.
func (w *world) probes() []probeFrame {
	var all []probeFrame
	for i, from := range w.endpoints {
		for _, to := range w.endpoints {
			for _, a := range to.addresses() {
				if p, ok := w.probe(i, a); ok && to.ID != from.ID {
					all = append(all, p)
				}
			}
			if from.IPv4.IsValid() && to.IPv4.IsValid() {
				all = append(all, probeFrame{from: i, to: to.IPv4, frame: arpFrame(from.MAC, from.IPv4, to.IPv4)})
			}
		}
		in := w.in(from)
		nobody := in.Subnet.Addr().As4()
		nobody[3] = 99
		for _, a := range []netip.Addr{netip.AddrFrom4(nobody), addr("255.255.255.255"), addr("224.0.0.251"), addr("ff02::fb")} {
			if p, ok := w.probe(i, a); ok {
				all = append(all, p)
			}
		}
		if in.Gateway.IsValid() && from.IPv4.IsValid() {
			all = append(all, probeFrame{from: i, to: in.Gateway, frame: arpFrame(from.MAC, from.IPv4, in.Gateway)})
		}
	}
	w.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (e Endpoint) addresses() []netip.Addr { return addresses(e.IPv4, e.IPv6) }

func (w *world) in(e Endpoint) Network {
	for _, n := range w.networks {
		if n.ID == e.Network {
			return n
		}
	}
	panic("endpoint without network")
}

// probe is a packet as the endpoint's host would send it: to the MAC of a
// neighbour, or of the gateway.
func (w *world) probe(from int, to netip.Addr) (probeFrame, bool) {
	e, r := w.endpoints[from], w.rand
	p := probeFrame{from: from, to: to, toMAC: AnycastMAC, protocol: pick[uint8](r, 1, 6, 17, 132),
		src: pick[uint16](r, 80, 4000), dst: pick[uint16](r, 80, 53, 4000), syn: chance(r, 50), ack: chance(r, 50)}
	in := w.in(e)
	subnet := in.Subnet
	if p.sender = e.IPv4; to.Is6() {
		p.sender, subnet = e.IPv6, in.Subnet6
	}
	switch {
	case !p.sender.IsValid():
		return p, false
	case to.IsMulticast() || to == addr("255.255.255.255"):
		p.toMAC = broadcast
	case subnet.Contains(to) && !chance(r, 15):
		b := to.AsSlice()
		p.toMAC = mac{2, 2, 10, 1, in.Subnet.Addr().As4()[2], b[len(b)-1]}
	}
	p.viaGateway = p.toMAC == AnycastMAC
	header := 20
	if to.Is6() {
		header = 40
	}
	if p.size = 20; chance(r, 5) {
		p.size = pick(r, probeMTU-header-1, probeMTU-header, probeMTU-header+1, 9000)
	}
	p.frame = p.build(e.MAC)
	return p, true
}

func (p probeFrame) build(src mac) []byte {
	body := make([]byte, p.size)
	binary.BigEndian.PutUint16(body, p.src)
	binary.BigEndian.PutUint16(body[2:], p.dst)
	protocol := p.protocol
	switch p.protocol {
	case openflow.ProtoICMP:
		body[0], body[1] = 8, 0
		if p.to.Is6() {
			protocol, body[0] = openflow.ProtoICMPv6, 128
		}
	case openflow.ProtoUDP:
		binary.BigEndian.PutUint16(body[4:], uint16(len(body)))
	case openflow.ProtoTCP:
		body[12] = 5 << 4
		body[13] = 0x08 // PSH: no flags at all would be odd
		if p.syn {
			body[13] |= byte(openflow.TCPSyn)
		}
		if p.ack {
			body[13] |= byte(openflow.TCPAck)
		}
	}
	if p.to.Is6() {
		return ipv6Frame(p.toMAC, src, p.to, p.sender, protocol, 64, 16, body)
	}
	header := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0}
	binary.BigEndian.PutUint16(header[2:], uint16(20+len(body)))
	header = append(append(header, p.sender.AsSlice()...), p.to.AsSlice()...)
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	return ethernet(p.toMAC, src, openflow.EthTypeIPv4, header, body)
}

// without is who could get a frame if there were no rules.
func (w *world) without(p probeFrame, frame []byte) map[int][]byte {
	lawless := *w
	lawless.lawless = true
	return lawless.receivers(p, frame)
}

// receivers is the oracle: which endpoints get a frame, and how it looks then.
func (w *world) receivers(p probeFrame, frame []byte) map[int][]byte {
	sender := w.endpoints[p.from]
	in := w.in(sender)
	got := map[int][]byte{}
	if p.protocol == 0 {
		w.answered(p, in, frame, got)
		return got
	}
	known := false // somebody of a bridged network has the MAC
	for i, e := range w.endpoints {
		has := e.IPv4 == p.to || e.IPv6 == p.to
		switch {
		case e.VRF != sender.VRF:
		case in.Mode.Bridged():
			if e.Network == in.ID && e.MAC == p.toMAC {
				known = true
				w.deliver(p, e, i, frame, got)
			}
		case !has || w.in(e).Mode.Bridged():
		case p.viaGateway && in.routes(p.to) && w.in(e).routes(p.to):
			w.deliver(p, e, i, routed(frame, e.MAC), got)
		case !p.viaGateway && e.Network == in.ID && e.MAC == p.toMAC:
			w.deliver(p, e, i, frame, got)
		}
	}
	outside := in.Encap == VLAN && p.toMAC[0]&1 == 0 // whoever is not known is there
	if in.Mode.Bridged() && !known && !p.viaGateway && !outside {
		w.flooded(p, in, frame, got)
	}
	return got
}

// routes tells whether a network has a gateway for packets to an address.
func (n Network) routes(to netip.Addr) bool {
	return n.Gateway.IsValid() && to.Is4() || n.Gateway6.IsValid() && to.Is6()
}

func (w *world) flooded(p probeFrame, in Network, frame []byte, got map[int][]byte) {
	for i, e := range w.endpoints {
		if e.Network == in.ID {
			w.deliver(p, e, i, frame, got)
		}
	}
}

// answered is what becomes of an ARP request: the owner's answer, or the
// question to everybody.
func (w *world) answered(p probeFrame, in Network, frame []byte, got map[int][]byte) {
	owners := map[netip.Addr]mac{}
	if in.Mode == Routed && in.Gateway.IsValid() {
		owners[in.Gateway] = AnycastMAC
	}
	for _, e := range w.endpoints {
		if e.Network == in.ID {
			owners[e.IPv4] = e.MAC
		}
	}
	owner, known := owners[p.to]
	sender := w.endpoints[p.from]
	switch {
	case in.Encap == VLAN && p.to == sender.IPv4: // hosts outside may want to know
		w.flooded(p, in, frame, got)
	case in.Mode != BridgedFlood && p.to == sender.IPv4: // nobody's business
	case in.Mode != BridgedFlood && known:
		answer := ethernet(sender.MAC, owner, openflow.EthTypeARP, []byte{0, 1, 8, 0, 6, 4, 0, 2},
			owner[:], frame[38:42], frame[22:28], frame[28:32])
		got[p.from] = append(answer, frame[42:]...)
	case in.Mode.Bridged():
		w.flooded(p, in, frame, got)
	}
}

func (w *world) deliver(p probeFrame, to Endpoint, number int, frame []byte, got map[int][]byte) {
	if number != p.from && (w.lawless || w.allows(p, w.endpoints[p.from].Group, to.Group)) {
		got[number] = frame
	}
}

// allows asks the rules; those with the highest priority decide, and each of them may deny.
func (w *world) allows(p probeFrame, from, to uint16) bool {
	verdict, best := true, 0
	for _, r := range w.rules {
		switch {
		case r.Priority < best || !r.fits(p, from, to):
		case r.Priority == best:
			verdict = verdict && r.Allow
		default:
			verdict, best = r.Allow, r.Priority
		}
	}
	return verdict
}

func (r Rule) fits(p probeFrame, from, to uint16) bool {
	is := func(want, got uint16) bool { return want == 0 || want == got }
	return p.protocol != 0 && is(r.SrcGroup, from) && is(r.DstGroup, to) &&
		(!r.Src.IsValid() || r.Src.Contains(p.sender)) &&
		(!r.Dst.IsValid() || r.Dst.Contains(p.to) || r.Dst6.IsValid() && r.Dst6.Contains(p.to)) &&
		is(uint16(r.Protocol), uint16(p.protocol)) && is(r.SrcPort, p.src) && is(r.DstPort, p.dst) &&
		(r.TCPFlags == "" || p.syn && !p.ack)
}
