package icmperror

import (
	"encoding/binary"
	"net/netip"
)

// TooBig returns the frame that says that the packet in a frame is too big for the way
// behind a router, which carries mtu bytes; nil if there must be none (answerTo).
//
// An IPv4 packet that may be fragmented is answered like one that must not be. The switch
// does not make fragments; a host that hears of it does so itself.
func TooBig(frame []byte, mtu uint16, router netip.Addr) []byte {
	if router.Is6() {
		return answerTo(frame, router, binary.BigEndian.AppendUint16([]byte{2, 0, 0, 0, 0, 0}, mtu)) // packet too big
	}
	return answerTo(frame, router, binary.BigEndian.AppendUint16([]byte{3, 4, 0, 0, 0, 0}, mtu)) // unreachable, fragmentation needed
}

// Expired returns the frame that says that the packet in a frame has used up its hops at a router; nil if there must be none.
func Expired(frame []byte, router netip.Addr) []byte {
	if router.Is6() {
		return answerTo(frame, router, []byte{3, 0, 0, 0, 0, 0, 0, 0})
	}
	return answerTo(frame, router, []byte{11, 0, 0, 0, 0, 0, 0, 0})
}
