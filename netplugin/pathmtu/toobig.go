package pathmtu

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/ofnet/pipeline"
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
	if !ok || p.isError() || p.later || len(router.AsSlice()) != p.addressLen {
		return nil
	}
	about := p.whole()
	about = about[:min(len(about), p.quoted)]
	answer := make([]byte, ethernetSize+p.size+icmpSize+len(about))
	copy(answer, frame[6:12])
	copy(answer[6:], pipeline.AnycastMAC[:])
	binary.BigEndian.PutUint16(answer[12:], p.etherType)
	a := packet{version: p.version, header: answer[ethernetSize:][:p.size], payload: answer[ethernetSize+p.size:]}
	copy(a.src(), router.AsSlice())
	copy(a.dst(), p.src())
	const hops = 64
	if !p.six() {
		a.header[0], a.header[8], a.header[9] = 0x45, hops, p.icmp
		binary.BigEndian.PutUint16(a.header[2:], uint16(len(a.header)+len(a.payload)))
		sumHeader(a.header)
		a.payload[0], a.payload[1] = 3, 4 // unreachable, fragmentation needed
		binary.BigEndian.PutUint16(a.payload[6:], mtu)
	} else {
		a.header[0], a.header[6], a.header[7] = 0x60, p.icmp, hops
		binary.BigEndian.PutUint16(a.header[4:], uint16(len(a.payload)))
		a.payload[0] = 2 // packet too big
		binary.BigEndian.PutUint32(a.payload[4:], uint32(mtu))
	}
	copy(a.payload[icmpSize:], about)
	a.sumICMP()
	return answer
}
