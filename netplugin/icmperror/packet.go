package icmperror

import (
	"encoding/binary"
	"slices"

	"github.com/contiv/netplugin/utils/inet"
)

// version has the differences between errors of the two IP families.
type version struct {
	etherType uint16
	size      int  // of the header that is written
	icmp      byte // protocol number
	quoted    int  // most bytes of a packet that an error about it quotes: RFC 1812 wants no more than 576 in all, RFC 4443 no more than 1280
}

func version4() version {
	return version{inet.EtherTypeIPv4, inet.IPv4Size, inet.ICMP, 576 - inet.IPv4Size - inet.ICMPSize}
}

func version6() version {
	return version{inet.EtherTypeIPv6, inet.IPv6Size, inet.ICMPv6, 1280 - inet.IPv6Size - inet.ICMPSize}
}

// packet is an IP packet, with its version.
type packet struct {
	inet.Packet
	version
}

// parse returns the IP packet in a frame; false if there is none.
func parse(frame []byte) (packet, bool) {
	p, ok := inet.ReadFrame(frame)
	switch {
	case !ok:
		return packet{}, false
	case p.IsIPv6():
		return packet{p, version6()}, true
	}
	return packet{p, version4()}, true
}

// withoutFragment returns the packet with its fragment fields cleared.
func (p packet) withoutFragment() []byte {
	all := slices.Concat(p.Header, p.Payload)
	if p.IsIPv6() {
		all[6] = p.Protocol
		binary.BigEndian.PutUint16(all[4:], uint16(len(p.Payload)))
		return all
	}
	const mayNot = 0x4000 // the bit for "don't fragment"
	binary.BigEndian.PutUint16(all[6:], binary.BigEndian.Uint16(all[6:])&mayNot)
	inet.SumIPv4(all[:len(p.Header)])
	return all
}

// isError reports whether the packet is an ICMP error, which is never answered.
func (p packet) isError() bool {
	if p.Protocol != p.icmp || len(p.Payload) < inet.ICMPSize {
		return false
	}
	kind := p.Payload[0]
	if p.IsIPv6() {
		return kind < 128
	}
	return kind == 3 || kind == 4 || kind == 5 || kind == 11 || kind == 12
}

// sumICMP writes the checksum of the packet's ICMP message.
func (p packet) sumICMP() {
	clear(p.Payload[2:4])
	sum := uint32(0)
	if p.IsIPv6() {
		sum = p.Pseudo(p.icmp, len(p.Payload))
	}
	binary.BigEndian.PutUint16(p.Payload[2:], inet.Checksum(p.Payload, sum))
}
