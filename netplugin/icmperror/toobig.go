package icmperror

import (
	"encoding/binary"
	"net/netip"
)

// tooBigError returns the ICMP error saying that the packet in a frame exceeds the MTU, in bytes, behind a router; nil
// if there must be none (answerTo).
//
// An IPv4 packet without "don't fragment" is answered, too. The switch does not fragment; a host that receives the
// error does so itself.
func tooBigError(frame []byte, mtu uint16, router netip.Addr) []byte {
	if router.Is6() {
		return answerTo(frame, router, binary.BigEndian.AppendUint16([]byte{2, 0, 0, 0, 0, 0}, mtu)) // packet too big
	}
	return answerTo(frame, router, binary.BigEndian.AppendUint16([]byte{3, 4, 0, 0, 0, 0}, mtu)) // unreachable, fragmentation needed
}

// expiredError returns the ICMP error saying that the hop limit of the packet in a frame has expired at a router; nil
// if there must be none.
func expiredError(frame []byte, router netip.Addr) []byte {
	if router.Is6() {
		return answerTo(frame, router, []byte{3, 0, 0, 0, 0, 0, 0, 0})
	}
	return answerTo(frame, router, []byte{11, 0, 0, 0, 0, 0, 0, 0})
}
