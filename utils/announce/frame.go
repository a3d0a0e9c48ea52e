// Package announce tells others on a link which MAC has an address, unasked.
//
// Who has asked once goes on with the answer until that is too old, and a switch sends what is
// for a MAC to where it has heard that last. Both learn anew from what the one who has the
// address says: a gratuitous ARP request, or an unsolicited neighbour advertisement.
package announce

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/utils/inet"
)

// Sender is who has addresses.
type Sender struct {
	MAC    [6]byte
	Router bool // forwards for others: who has it as his IPv6 router would forget it otherwise
}

// Frame announces an address of the sender.
func (s Sender) Frame(own netip.Addr) []byte {
	if own.Is4() {
		return s.gratuitousARP(own)
	}
	return s.advertisement(own)
}

// gratuitousARP is a question to all for the sender's own address (RFC 5227, 3).
func (s Sender) gratuitousARP(own netip.Addr) []byte {
	four := own.As4()
	frame := make([]byte, 0, 60)
	frame = append(frame, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	frame = append(frame, s.MAC[:]...)
	frame = append(frame, 0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1) // Ethernet and IPv4: a request
	frame = append(append(frame, s.MAC[:]...), four[:]...)
	frame = append(append(frame, make([]byte, 6)...), four[:]...)
	return frame[:60] // the shortest there is
}

// Flags of an advertisement.
const (
	fromRouter = 0x80
	overrides  = 0x20
)

// advertisement says to all nodes of the link whose an address is, unasked (RFC 4861, 7.2.6).
func (s Sender) advertisement(own netip.Addr) []byte {
	flags := byte(overrides)
	if s.Router {
		flags |= fromRouter
	}
	source, to := own.As16(), netip.IPv6LinkLocalAllNodes().As16()
	body := append([]byte{136, 0, 0, 0, flags, 0, 0, 0}, source[:]...)
	body = append(append(body, 2, 1), s.MAC[:]...) // the target's MAC
	frame := append(append([]byte{0x33, 0x33, 0, 0, 0, 1}, s.MAC[:]...), 0x86, 0xdd)
	frame = append(frame, 0x60, 0, 0, 0, 0, byte(len(body)), 58, 255)
	frame = append(append(frame, source[:]...), to[:]...)
	pseudo := inet.Sum(source[:], inet.Sum(to[:], uint32(len(body))+58))
	binary.BigEndian.PutUint16(body[2:], inet.Checksum(body, pseudo))
	return append(frame, body...)
}
