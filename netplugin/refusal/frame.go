package refusal

import (
	"encoding/binary"

	"github.com/contiv/netplugin/utils/inet"
)

// The largest part of the refused packet that an ICMP error quotes, so that the error has at most 576 bytes, as
// RFC 1812 requires, or the least MTU of IPv6, as RFC 4443 does.
const (
	quoted4 = 576 - inet.IPv4Size - inet.ICMPSize
	quoted6 = 1280 - inet.IPv6Size - inet.ICMPSize
)

// Flags of TCP.
const (
	fin = 1 << iota
	syn
	rst
	_
	ack
)

// answerTo returns the frame that refuses an IPv4 or IPv6 packet; nil if there must be none: malformed packets, later
// fragments, resets and ICMP are not answered.
func answerTo(frame []byte) []byte {
	read, ok := inet.ReadFrame(frame)
	if !ok || read.Later || len(read.Payload) < inet.UDPSize {
		return nil
	}
	ip, answer := packet{read}, []byte(nil)
	switch ip.Protocol {
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
type packet struct{ inet.Packet }

// answer begins a packet to the sender of p; segment, its payload, is zero.
func (p packet) answer(protocol byte, size int) (all, segment []byte) {
	if p.IsIPv6() {
		b := make([]byte, inet.IPv6Size+size)
		b[0] = 0x60
		binary.BigEndian.PutUint16(b[4:], uint16(size))
		b[6], b[7] = protocol, 64
		copy(b[8:], p.Dst())
		copy(b[24:], p.Src())
		return b, b[inet.IPv6Size:]
	}
	b := make([]byte, inet.IPv4Size+size)
	b[0] = 0x45
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	b[6] = 0x40 // don't fragment
	b[8], b[9] = 64, protocol
	copy(b[12:], p.Dst())
	copy(b[16:], p.Src())
	inet.SumIPv4(b[:inet.IPv4Size])
	return b, b[inet.IPv4Size:]
}

// reset returns the TCP reset for a segment, after RFC 9293, 3.10.7.1.
func (p packet) reset() []byte {
	segment := p.Payload
	if len(segment) < inet.TCPSize || segment[13]&rst != 0 {
		return nil
	}
	flags, data := segment[13], len(segment)-int(segment[12]>>4)*4
	if data < 0 {
		return nil
	}
	b, tcp := p.answer(inet.TCP, inet.TCPSize)
	copy(tcp, segment[2:4])
	copy(tcp[2:], segment[:2])
	tcp[12], tcp[13] = inet.TCPSize/4<<4, rst
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
	binary.BigEndian.PutUint16(tcp[16:], inet.Checksum(tcp, p.Pseudo(inet.TCP, len(tcp))))
	return b
}

// unreachable returns the ICMP error port unreachable about the packet.
func (p packet) unreachable() []byte {
	kind, code, protocol, quoted := byte(3), byte(3), byte(inet.ICMP), quoted4
	if p.IsIPv6() {
		kind, code, protocol, quoted = 1, 4, inet.ICMPv6, quoted6
	}
	about := p.All[:min(len(p.All), quoted)]
	b, icmp := p.answer(protocol, inet.ICMPSize+len(about))
	icmp[0], icmp[1] = kind, code
	copy(icmp[inet.ICMPSize:], about)
	sum := uint32(0)
	if p.IsIPv6() {
		sum = p.Pseudo(protocol, len(icmp))
	}
	binary.BigEndian.PutUint16(icmp[2:], inet.Checksum(icmp, sum))
	return b
}
