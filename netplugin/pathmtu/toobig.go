package pathmtu

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
)

// TooBig returns the frame that says that the packet in a frame is too big for the way
// behind a router, which carries mtu bytes; nil if there must be none. Later
// fragments and ICMP errors are not answered.
//
// An IPv4 packet that may be fragmented is answered like one that must not be. The switch
// does not make fragments; a host that hears of it does so itself. A first fragment is quoted as
// a whole packet: the connection tracker, which is to translate the answer, takes no other
// for one of a connection.
func TooBig(frame []byte, mtu uint16, router netip.Addr) []byte {
	p, ok := parse(frame)
	if !ok || p.isError() || p.Later || len(router.AsSlice()) != len(p.Src()) {
		return nil
	}
	about := p.whole()
	about = about[:min(len(about), p.quoted)]
	answer := make([]byte, inet.EthernetSize+p.size+inet.ICMPSize+len(about))
	copy(answer, frame[6:12])
	copy(answer[6:], pipeline.AnycastMAC[:])
	binary.BigEndian.PutUint16(answer[12:], p.etherType)
	header, message := answer[inet.EthernetSize:][:p.size], answer[inet.EthernetSize+p.size:]
	const hops = 64
	if p.IsIPv6() {
		header[0], header[6], header[7] = 0x60, p.icmp, hops
		binary.BigEndian.PutUint16(header[4:], uint16(len(message)))
		message[0] = 2 // packet too big
		binary.BigEndian.PutUint32(message[4:], uint32(mtu))
	} else {
		header[0], header[8], header[9] = 0x45, hops, p.icmp
		binary.BigEndian.PutUint16(header[2:], uint16(len(header)+len(message)))
		message[0], message[1] = 3, 4 // unreachable, fragmentation needed
		binary.BigEndian.PutUint16(message[6:], mtu)
	}
	a := packet{inet.Packet{Header: header, Payload: message}, p.version}
	copy(a.Src(), router.AsSlice())
	copy(a.Dst(), p.Src())
	if !p.IsIPv6() {
		inet.SumIPv4(header)
	}
	copy(message[inet.ICMPSize:], about)
	a.sumICMP()
	return answer
}
