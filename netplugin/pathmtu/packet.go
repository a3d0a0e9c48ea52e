package pathmtu

import (
	"encoding/binary"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// Sizes in bytes.
const (
	ethernetSize = 14
	ipv4Size     = 20 // without options
	ipv6Size     = 40
	icmpSize     = 8
	fragmentSize = 8 // the header of a fragment of IPv6
)

// version is what differs between the two versions of IP.
type version struct {
	etherType  uint16
	size       int // of the header that we write
	source     int // place of the source address in it; the destination follows
	addressLen int
	icmp       byte // protocol number
	quoted     int  // most bytes of a packet that an error about it quotes: RFC 1812 wants no more than 576 in all, RFC 4443 no more than 1280
}

func version4() version { return version{0x0800, ipv4Size, 12, 4, 1, 576 - ipv4Size - icmpSize} }

func version6() version { return version{0x86dd, ipv6Size, 8, 16, 58, 1280 - ipv6Size - icmpSize} }

func (v version) six() bool { return v.size == ipv6Size }

// packet is an IP packet.
type packet struct {
	version
	header   []byte // with options, but no extension headers; of those only that of a fragment is known
	protocol byte   // of what follows
	part     bool   // a fragment
	later    bool   // a fragment that is not the first one
	payload  []byte // without that header
}

// parse reads the packet in a frame, which may end with padding.
func parse(frame []byte) (packet, bool) {
	if len(frame) < ethernetSize+ipv4Size {
		return packet{}, false
	}
	b := frame[ethernetSize:]
	switch v4, v6 := version4(), version6(); binary.BigEndian.Uint16(frame[12:]) {
	case v4.etherType:
		size, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
		if b[0]>>4 != 4 || size < ipv4Size || total < size || total > len(b) {
			return packet{}, false
		}
		fragment := binary.BigEndian.Uint16(b[6:])
		return packet{v4, b[:size], b[9], fragment&0x3fff != 0, fragment&0x1fff != 0, b[size:total]}, true
	case v6.etherType:
		if b[0]>>4 != 6 || len(b) < ipv6Size {
			return packet{}, false
		}
		total := ipv6Size + int(binary.BigEndian.Uint16(b[4:]))
		if total > len(b) {
			return packet{}, false
		}
		p := packet{v6, b[:ipv6Size], b[6], false, false, b[ipv6Size:total]}
		if p.protocol == openflow.ProtoIPv6Fragment && len(p.payload) >= fragmentSize {
			place := binary.BigEndian.Uint16(p.payload[2:])
			p.protocol, p.part, p.later, p.payload = p.payload[0], place&^6 != 0, place&^7 != 0, p.payload[fragmentSize:]
		}
		return p, true
	}
	return packet{}, false
}

// whole is the packet as if it were no fragment.
func (p packet) whole() []byte {
	all := slices.Concat(p.header, p.payload)
	if p.six() {
		all[6] = p.protocol
		binary.BigEndian.PutUint16(all[4:], uint16(len(p.payload)))
		return all
	}
	const mayNot = 0x4000 // be fragmented
	binary.BigEndian.PutUint16(all[6:], binary.BigEndian.Uint16(all[6:])&mayNot)
	sumHeader(all[:len(p.header)])
	return all
}

func (p packet) src() []byte { return p.header[p.source : p.source+p.addressLen] }
func (p packet) dst() []byte { return p.header[p.source+p.addressLen : p.source+2*p.addressLen] }

// isError tells whether it is an ICMP error: nothing is said about those.
func (p packet) isError() bool {
	if p.protocol != p.icmp || len(p.payload) < icmpSize {
		return false
	}
	kind := p.payload[0]
	if p.six() {
		return kind < 128
	}
	return kind == 3 || kind == 4 || kind == 5 || kind == 11 || kind == 12
}

// sumICMP writes the checksum of the ICMP message that the packet is.
func (p packet) sumICMP() {
	clear(p.payload[2:4])
	sum := uint32(0)
	if p.six() { // the pseudo header
		sum = inet.Sum(p.header[p.source:], uint32(p.icmp)+uint32(len(p.payload)))
	}
	binary.BigEndian.PutUint16(p.payload[2:], inet.Checksum(p.payload, sum))
}

// sumHeader writes the checksum of an IPv4 header.
func sumHeader(header []byte) {
	clear(header[10:12])
	binary.BigEndian.PutUint16(header[10:], inet.Checksum(header, 0))
}
