package icmperror

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
)

// answerTo returns the frame of an ICMP error from a router to the sender of a packet; nil if there must be none:
// later fragments and ICMP errors are not answered. message is the ICMP header without its checksum.
//
// A first fragment is quoted as a whole packet: the connection tracker, which has to translate the error, would
// not match a fragment to a connection.
func answerTo(frame []byte, router netip.Addr, message []byte) []byte {
	p, ok := parse(frame)
	if !ok || p.isError() || p.Later || len(router.AsSlice()) != len(p.Src()) {
		return nil
	}
	about := p.withoutFragment()
	about = about[:min(len(about), p.quoted)]
	answer := make([]byte, inet.EthernetSize+p.size+inet.ICMPSize+len(about))
	copy(answer, frame[6:12])
	copy(answer[6:], pipeline.AnycastMAC[:])
	binary.BigEndian.PutUint16(answer[12:], p.etherType)
	a := packet{inet.Packet{Header: answer[inet.EthernetSize:][:p.size], Payload: answer[inet.EthernetSize+p.size:]}, p.version}
	const hops = 64
	if p.IsIPv6() {
		a.Header[0], a.Header[6], a.Header[7] = 0x60, p.icmp, hops
		binary.BigEndian.PutUint16(a.Header[4:], uint16(len(a.Payload)))
	} else {
		a.Header[0], a.Header[8], a.Header[9] = 0x45, hops, p.icmp
		binary.BigEndian.PutUint16(a.Header[2:], uint16(len(a.Header)+len(a.Payload)))
	}
	copy(a.Src(), router.AsSlice())
	copy(a.Dst(), p.Src())
	if !p.IsIPv6() {
		inet.SumIPv4(a.Header)
	}
	copy(a.Payload, message)
	copy(a.Payload[inet.ICMPSize:], about)
	a.sumICMP()
	return answer
}
