package refusal

import (
	"encoding/binary"

	"github.com/contiv/netplugin/utils/inet"
)

// Sizes and positions in frames, in bytes.
const (
	ethernetSize = 14
	ipSize       = 20 // without options
	tcpSize      = 20
	icmpSize     = 8
	quoted       = 548 // of the refused packet in an ICMP error: RFC 1812 wants no more than 576 in all
)

const (
	protocolICMP = 1
	protocolTCP  = 6
)

// Flags of TCP.
const (
	fin = 1 << iota
	syn
	rst
	_
	ack
)

// To returns the frame that refuses an IPv4 packet, nil if there must be none:
// what is damaged is not answered, nor are later fragments, resets and ICMP.
func To(frame []byte) []byte {
	if len(frame) < ethernetSize+ipSize || binary.BigEndian.Uint16(frame[12:]) != 0x0800 {
		return nil
	}
	ip := frame[ethernetSize:]
	header, total := int(ip[0]&0xf)*4, int(binary.BigEndian.Uint16(ip[2:]))
	fragment := binary.BigEndian.Uint16(ip[6:]) & 0x1fff
	if ip[0]>>4 != 4 || header < ipSize || total < header+8 || total > len(ip) || fragment != 0 {
		return nil
	}
	ip = ip[:total]
	var answer []byte
	switch ip[9] {
	case protocolICMP:
	case protocolTCP:
		answer = reset(ip, header)
	default:
		answer = unreachable(ip)
	}
	if answer == nil {
		return nil
	}
	back := append([]byte{}, frame[6:12]...)
	back = append(back, frame[:6]...)
	return append(append(back, 0x08, 0x00), answer...)
}

// answerTo begins a packet back to where one came from.
func answerTo(ip []byte, protocol byte, size int) []byte {
	b := make([]byte, ipSize+size)
	b[0] = 0x45
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	b[6] = 0x40 // not to be fragmented
	b[8] = 64
	b[9] = protocol
	copy(b[12:], ip[16:20])
	copy(b[16:], ip[12:16])
	binary.BigEndian.PutUint16(b[10:], inet.Checksum(b[:ipSize], 0))
	return b
}

// reset refuses a segment as RFC 9293, 3.10.7.1, wants it.
func reset(ip []byte, header int) []byte {
	segment := ip[header:]
	if len(segment) < tcpSize || segment[13]&rst != 0 {
		return nil
	}
	flags, data := segment[13], len(segment)-int(segment[12]>>4)*4
	if data < 0 {
		return nil
	}
	b := answerTo(ip, protocolTCP, tcpSize)
	tcp := b[ipSize:]
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
	// The pseudo header: both addresses, the protocol and the length.
	sum := protocolTCP + uint32(len(tcp))
	for i := 12; i < ipSize; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	binary.BigEndian.PutUint16(tcp[16:], inet.Checksum(tcp, sum))
	return b
}

// unreachable is the ICMP error about a packet to a closed port.
func unreachable(ip []byte) []byte {
	about := ip[:min(len(ip), quoted)]
	b := answerTo(ip, protocolICMP, icmpSize+len(about))
	icmp := b[ipSize:]
	icmp[0], icmp[1] = 3, 3
	copy(icmp[icmpSize:], about)
	binary.BigEndian.PutUint16(icmp[2:], inet.Checksum(icmp, 0))
	return b
}
