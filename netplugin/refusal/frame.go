package refusal

import (
	"encoding/binary"

	"github.com/contiv/netplugin/utils/inet"
)

// Sizes and positions in frames, in bytes.
const (
	ethernetSize = 14
	ipv4Size     = 20 // without options
	ipv6Size     = 40
	fragmentSize = 8 // the header of a fragment of IPv6
	tcpSize      = 20
	icmpSize     = 8
	quoted4      = 548  // of the refused packet in an ICMP error: RFC 1812 wants no more than 576 in all
	quoted6      = 1232 // RFC 4443: no more than the least MTU of IPv6
)

const (
	typeIPv4 = 0x0800
	typeIPv6 = 0x86dd
)

// Flags of TCP.
const (
	fin = 1 << iota
	syn
	rst
	_
	ack
)

// To returns the frame that refuses a packet of IPv4 or IPv6, nil if there must be none:
// what is damaged is not answered, nor are later fragments, resets and ICMP.
func To(frame []byte) []byte {
	if len(frame) < ethernetSize {
		return nil
	}
	ip, ok := parse(binary.BigEndian.Uint16(frame[12:]), frame[ethernetSize:])
	if !ok {
		return nil
	}
	var answer []byte
	switch ip.protocol {
	case inet.TCP:
		answer = ip.reset()
	case inet.UDP:
		answer = ip.unreachable()
	}
	if answer == nil {
		return nil
	}
	back := append([]byte{}, frame[6:12]...)
	back = append(back, frame[:6]...)
	return append(append(back, frame[12:14]...), answer...)
}

// packet is one of IPv4 or IPv6.
type packet struct {
	all      []byte
	src, dst []byte
	protocol byte
	segment  []byte // what is behind the header
}

// parse reads a packet without extensions, but that of a first fragment, and with at least 8 bytes behind its headers.
func parse(kind uint16, b []byte) (p packet, ok bool) {
	switch {
	case kind == typeIPv4 && len(b) >= ipv4Size && b[0]>>4 == 4:
		header, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
		fragment := binary.BigEndian.Uint16(b[6:]) & 0x1fff
		if header < ipv4Size || total < header+8 || total > len(b) || fragment != 0 {
			return p, false
		}
		return packet{b[:total], b[12:16], b[16:20], b[9], b[header:total]}, true
	case kind == typeIPv6 && len(b) >= ipv6Size && b[0]>>4 == 6:
		total := ipv6Size + int(binary.BigEndian.Uint16(b[4:]))
		if total < ipv6Size+8 || total > len(b) {
			return p, false
		}
		return packet{b[:total], b[8:24], b[24:40], b[6], b[ipv6Size:total]}.beginning()
	}
	return p, false
}

// beginning looks behind the header of a fragment of IPv6, if it is the first one.
func (p packet) beginning() (packet, bool) {
	if p.protocol != inet.IPv6Fragment {
		return p, true
	}
	if len(p.segment) < fragmentSize+8 || binary.BigEndian.Uint16(p.segment[2:])&^7 != 0 {
		return p, false
	}
	p.protocol, p.segment = p.segment[0], p.segment[fragmentSize:]
	return p, true
}

func (p packet) isIPv4() bool { return len(p.src) == 4 }

// answer begins a packet back to where one came from; the segment is still zero.
func (p packet) answer(protocol byte, size int) (all, segment []byte) {
	if !p.isIPv4() {
		b := make([]byte, ipv6Size+size)
		b[0] = 0x60
		binary.BigEndian.PutUint16(b[4:], uint16(size))
		b[6], b[7] = protocol, 64
		copy(b[8:], p.dst)
		copy(b[24:], p.src)
		return b, b[ipv6Size:]
	}
	b := make([]byte, ipv4Size+size)
	b[0] = 0x45
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	b[6] = 0x40 // not to be fragmented
	b[8], b[9] = 64, protocol
	copy(b[12:], p.dst)
	copy(b[16:], p.src)
	binary.BigEndian.PutUint16(b[10:], inet.Checksum(b[:ipv4Size], 0))
	return b, b[ipv4Size:]
}

// pseudo is the sum over the pseudo header: both addresses, the protocol and the length.
func (p packet) pseudo(protocol byte, size int) uint32 {
	return inet.Sum(p.dst, inet.Sum(p.src, uint32(protocol)+uint32(size)))
}

// reset refuses a segment as RFC 9293, 3.10.7.1, wants it.
func (p packet) reset() []byte {
	segment := p.segment
	if len(segment) < tcpSize || segment[13]&rst != 0 {
		return nil
	}
	flags, data := segment[13], len(segment)-int(segment[12]>>4)*4
	if data < 0 {
		return nil
	}
	b, tcp := p.answer(inet.TCP, tcpSize)
	copy(tcp, segment[2:4])
	copy(tcp[2:], segment[:2])
	tcp[12], tcp[13] = tcpSize/4<<4, rst
	if flags&ack != 0 {
		copy(tcp[4:], segment[8:12])
	} else {
		tcp[13] |= ack
		next := binary.BigEndian.Uint32(segment[4:]) + uint32(data)
		for _, flag := range []byte{syn, fin} {
			if flags&flag != 0 {
				next++
			}
		}
		binary.BigEndian.PutUint32(tcp[8:], next)
	}
	binary.BigEndian.PutUint16(tcp[16:], inet.Checksum(tcp, p.pseudo(inet.TCP, len(tcp))))
	return b
}

// unreachable is the ICMP error about a packet to a closed port.
func (p packet) unreachable() []byte {
	kind, code, protocol, quoted := byte(3), byte(3), byte(inet.ICMP), quoted4
	if !p.isIPv4() {
		kind, code, protocol, quoted = 1, 4, inet.ICMPv6, quoted6
	}
	about := p.all[:min(len(p.all), quoted)]
	b, icmp := p.answer(protocol, icmpSize+len(about))
	icmp[0], icmp[1] = kind, code
	copy(icmp[icmpSize:], about)
	sum := uint32(0)
	if !p.isIPv4() {
		sum = p.pseudo(protocol, len(icmp))
	}
	binary.BigEndian.PutUint16(icmp[2:], inet.Checksum(icmp, sum))
	return b
}
