package inet

import "encoding/binary"

// EtherTypes, of https://www.iana.org/assignments/ieee-802-numbers.
const (
	EtherTypeIPv4 = 0x0800
	EtherTypeIPv6 = 0x86dd
)

// Sizes of headers, in bytes.
const (
	EthernetSize = 14 // without tags
	IPv4Size     = 20 // without options
	IPv6Size     = 40 // without extension headers
	FragmentSize = 8  // extension header of an IPv6 fragment
	ICMPSize     = 8
	UDPSize      = 8
	TCPSize      = 20 // without options
)

// Packet is an IP packet. Its slices are parts of the frame that it was read from.
type Packet struct {
	All      []byte // the packet, without the padding of the frame
	Header   []byte // including IPv4 options, without IPv6 extension headers
	Protocol byte   // of the payload; of the IPv6 extension headers only the fragment header is parsed
	Fragment bool   // it is a fragment
	Later    bool   // a fragment other than the first
	Payload  []byte // the rest; of an IPv6 fragment, after that header
}

// ReadFrame parses the packet in an untagged Ethernet frame, which may end with padding; false: it is incomplete.
func ReadFrame(frame []byte) (Packet, bool) {
	if len(frame) < EthernetSize {
		return Packet{}, false
	}
	switch b := frame[EthernetSize:]; binary.BigEndian.Uint16(frame[12:]) {
	case EtherTypeIPv4:
		return readIPv4(b)
	case EtherTypeIPv6:
		return readIPv6(b)
	}
	return Packet{}, false
}

func readIPv4(b []byte) (Packet, bool) {
	if len(b) < IPv4Size || b[0]>>4 != 4 {
		return Packet{}, false
	}
	size, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
	if size < IPv4Size || total < size || total > len(b) {
		return Packet{}, false
	}
	place := binary.BigEndian.Uint16(b[6:])
	return Packet{
		All: b[:total], Header: b[:size], Protocol: b[9], Fragment: place&0x3fff != 0, Later: place&0x1fff != 0,
		Payload: b[size:total],
	}, true
}

func readIPv6(b []byte) (Packet, bool) {
	if len(b) < IPv6Size || b[0]>>4 != 6 {
		return Packet{}, false
	}
	total := IPv6Size + int(binary.BigEndian.Uint16(b[4:]))
	if total > len(b) {
		return Packet{}, false
	}
	p := Packet{All: b[:total], Header: b[:IPv6Size], Protocol: b[6], Payload: b[IPv6Size:total]}
	if p.Protocol != IPv6Fragment {
		return p, true
	}
	if len(p.Payload) < FragmentSize {
		return Packet{}, false
	}
	place := binary.BigEndian.Uint16(p.Payload[2:])
	p.Protocol, p.Fragment, p.Later, p.Payload = p.Payload[0], place&^6 != 0, place&^7 != 0, p.Payload[FragmentSize:]
	return p, true
}

// IsIPv6 reports whether the version is 6; any other is treated as IPv4.
func (p Packet) IsIPv6() bool { return p.Header[0]>>4 == 6 }

// Src returns the source address.
func (p Packet) Src() []byte {
	if p.IsIPv6() {
		return p.Header[8:24]
	}
	return p.Header[12:16]
}

// Dst returns the destination address.
func (p Packet) Dst() []byte {
	if p.IsIPv6() {
		return p.Header[24:40]
	}
	return p.Header[16:20]
}

// Pseudo returns the sum over the pseudo header of size bytes of a protocol between both addresses, in either
// direction.
func (p Packet) Pseudo(protocol byte, size int) uint32 {
	return Sum(p.Dst(), Sum(p.Src(), uint32(protocol)+uint32(size)))
}

// SumIPv4 writes the checksum of an IPv4 header.
func SumIPv4(header []byte) {
	clear(header[10:12])
	binary.BigEndian.PutUint16(header[10:], Checksum(header, 0))
}
