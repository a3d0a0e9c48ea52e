package pipeline

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// probeFrame is a frame and its fields.
type probeFrame struct {
	from       int // wire
	to         netip.Addr
	toMAC      mac
	toAll      mac   // instead of the MAC at the address, if it is set
	protocol   uint8 // 0: an ARP request
	src, dst   uint16
	syn, ack   bool
	begun      *probeFrame // the packet that began its connection, if it is not that itself
	answer     bool        // to a TCP connection, or to a datagram
	sender     netip.Addr
	viaGateway bool
	size       int    // bytes after the IP header
	number     uint16 // of the datagram
	frame      []byte
}

// probeMTU leaves room for the ids appended to packets.
const probeMTU = 1400

func (p probeFrame) String() string {
	return fmt.Sprintf("from %d to %s at %x, protocol %d, ports %d and %d, syn %v, ack %v, %d bytes", p.from, p.to, p.toMAC, p.protocol, p.src, p.dst, p.syn, p.ack, p.size)
}

// frames returns the frame, or its fragments if it does not fit into the MTU.
func (p probeFrame) frames() [][]byte {
	if len(p.frame) <= 14+probeMTU {
		return [][]byte{p.frame}
	}
	return fragments(p.frame, probeMTU)
}

// beyondUs are addresses outside of a world.
var beyondUs = []netip.Addr{addr("198.51.100.1"), addr("2001:db8::1")}

// probes returns packets from every endpoint to the addresses of every other, to unused addresses and broadcast,
// to gateways and services, and from outside.
func (w *world) probes() []probeFrame {
	var all []probeFrame
	for i, from := range w.endpoints {
		in := w.in(from)
		targets := []netip.Addr{addr("255.255.255.255"), addr("224.0.0.251"), addr("ff02::fb"), in.nobody()}
		targets = append(append(targets, beyondUs...), addresses(in.Gateway, in.Gateway6)...)
		for _, s := range w.services {
			targets = append(targets, vipOf(s))
		}
		for _, to := range w.endpoints {
			if to.ID != from.ID {
				targets = append(targets, to.addresses()...)
			}
		}
		for _, to := range targets {
			if p, ok := w.probe(i, to); ok {
				all = append(all, p)
			}
			if from.IPv4.IsValid() && to.Is4() && !to.IsMulticast() {
				all = append(all, probeFrame{from: i, to: to, frame: arpFrame(from.MAC, from.IPv4, to)})
			}
		}
	}
	all = append(all, w.probesFromOutside()...)
	w.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// nobody returns an unused address of the network.
func (n Network) nobody() netip.Addr {
	if !n.Subnet.IsValid() {
		a := n.Subnet6.Addr().As16()
		a[15] = 99
		return netip.AddrFrom16(a)
	}
	a := n.Subnet.Addr().As4()
	a[3] = 99
	return netip.AddrFrom4(a)
}

func (e Endpoint) addresses() []netip.Addr { return addresses(e.IPv4, e.IPv6) }

// nobodysMAC is the MAC of no endpoint.
var nobodysMAC = mac{2, 2, 10, 1, 99, 99}

// macOf returns the MAC at an address of a network, or an unused one.
func (w *world) macOf(in Network, a netip.Addr) mac {
	for _, e := range w.endpoints {
		if e.Network == in.ID && (e.IPv4 == a || e.IPv6 == a) {
			return e.MAC
		}
	}
	return nobodysMAC
}

// probe returns a packet as the endpoint's host would send it: to the MAC of a neighbour, or of the gateway.
func (w *world) probe(from int, to netip.Addr) (probeFrame, bool) {
	r := w.rand
	p := probeFrame{from: from, to: to, protocol: pick[uint8](r, 1, 6, 17, 132),
		src: pick[uint16](r, 80, 4000), dst: pick[uint16](r, 80, 53, 4000), syn: chance(r, 50), ack: chance(r, 50)}
	known := slices.ContainsFunc(w.endpoints, func(e Endpoint) bool { return e.VRF == w.endpoints[from].VRF && e.has(to) })
	whole := w.isGateway(to) || p.protocol == openflow.ProtoTCP && !known // the connection tracker requires the beginning of a TCP connection
	if w.isService(w.endpoints[from].VRF, to) {
		w.ports++ // a port of its own, as answers to the old one now have the service as source
		whole, p.src, p.syn, p.ack = true, firstPort+w.ports, true, false
	}
	if !w.isService(w.endpoints[from].VRF, to) && chance(r, 20) {
		whole = w.speaksWithoutAddress(&p) || whole
	}
	if p.size = len(p.header()) + r.IntN(2); chance(r, 5) && !whole { // a byte, or none
		ip := 20
		if to.Is6() {
			ip = 40
		}
		p.size = pick(r, probeMTU-ip-1, probeMTU-ip, probeMTU-ip+1, 9000)
	}
	return p, w.address(&p)
}

// speaksWithoutAddress gives a packet a source that only endpoints of bridged networks may use besides their
// addresses: the link-local address of the MAC, or none in a solicitation for an address.
func (w *world) speaksWithoutAddress(p *probeFrame) (asks bool) {
	e := w.endpoints[p.from]
	switch asks = e.IPv4.IsValid() && p.to == addr("255.255.255.255"); {
	case !e.Mode.Bridged():
		return false
	case p.to.Is6():
		p.sender = linkLocalOf(e.MAC)
	case asks:
		p.sender, p.protocol, p.src, p.dst = netip.IPv4Unspecified(), openflow.ProtoUDP, dhcpClient, dhcpServer
	}
	return asks
}

// address sets the source, unless it is set, the MAC of the receiver or of the gateway, and the frame. The sender
// may have no address of that IP family.
func (w *world) address(p *probeFrame) bool {
	e := w.endpoints[p.from]
	in, r := w.in(e), w.rand
	subnet, own := in.Subnet, e.IPv4
	if p.to.Is6() {
		subnet, own = in.Subnet6, e.IPv6
	}
	if !p.sender.IsValid() {
		p.sender = own
	}
	p.toMAC = AnycastMAC
	switch {
	case p.to.IsMulticast() || p.to == addr("255.255.255.255"):
		p.toMAC = broadcast
	case subnet.IsValid() && subnet.Contains(p.to) && !chance(r, 15):
		if p.toMAC = w.macOf(in, p.to); w.isService(e.VRF, p.to) || w.isGateway(p.to) {
			p.toMAC = AnycastMAC
		}
	}
	if p.toAll != (mac{}) {
		p.toMAC = p.toAll
	}
	p.viaGateway = p.toMAC == AnycastMAC
	w.sent++
	p.number = w.sent
	if p.sender.IsValid() {
		p.frame = p.build(e.MAC)
	}
	return p.sender.IsValid()
}

// header returns the transport header, without a checksum.
func (p probeFrame) header() []byte {
	ports := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, p.src), p.dst)
	switch p.protocol {
	case openflow.ProtoICMP:
		kind := byte(8)
		if p.to.Is6() {
			kind = 128
		}
		return []byte{kind, 0, 0, 0, 0, 1, 0, 1}
	case openflow.ProtoUDP:
		return append(ports, byte(p.size>>8), byte(p.size), 0, 0)
	case openflow.ProtoTCP:
		flags := byte(openflow.TCPSyn)
		if p.ack {
			flags |= byte(openflow.TCPAck)
		}
		if !p.syn {
			flags ^= byte(openflow.TCPSyn) | 0x08 // PSH: a segment without flags would be odd
		}
		seq, ack := uint32(1000), uint32(5000)
		if p.answer {
			seq, ack = ack, seq
		}
		if !p.syn {
			seq++
		}
		if ack++; !p.ack {
			ack = 0
		}
		h := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(ports, seq), ack)
		return append(h, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	}
	return append(ports, make([]byte, 8)...) // SCTP; its checksum is not verified
}

// build returns the frame of a packet, with the datagram's number in the identification field, or in IPv6's flow
// label, from where fragments get it.
func (p probeFrame) build(src mac) []byte {
	body := bytes.Repeat([]byte("body"), p.size/4+1)[:p.size]
	copy(body, p.header())
	protocol := p.protocol
	var ip []byte
	if p.to.Is6() {
		if protocol == openflow.ProtoICMP {
			protocol = openflow.ProtoICMPv6
		}
		ip = []byte{0x60, 0, byte(p.number >> 8), byte(p.number), byte(p.size >> 8), byte(p.size), protocol, 64}
	} else {
		ip = []byte{0x45, 0, 0, 0, byte(p.number >> 8), byte(p.number), 0, 0, 64, protocol, 0, 0}
		binary.BigEndian.PutUint16(ip[2:], uint16(20+p.size))
	}
	ends := append(p.sender.AsSlice(), p.to.AsSlice()...)
	ip = append(ip, ends...)
	ethType := uint16(openflow.EthTypeIPv6)
	if p.to.Is4() {
		ethType = openflow.EthTypeIPv4
		binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	}
	frame := ethernet(p.toMAC, src, ethType, ip, body)
	if protocol == openflow.ProtoUDP {
		frame[14+len(ip)+6] = 0xff // anything but 0, which would mean none
	}
	if _, _, sum := transportOf(frame); sum != 0 {
		frame[sum], frame[sum+1] = 0, 0
		over := frame[14+len(ip):]
		if protocol != openflow.ProtoICMP {
			over = append(append(ends, 0, protocol, byte(p.size>>8), byte(p.size)), over...)
		}
		total := checksum(over)
		if total == 0 && protocol == openflow.ProtoUDP {
			total = 0xffff
		}
		binary.BigEndian.PutUint16(frame[sum:], total)
	}
	return frame
}
