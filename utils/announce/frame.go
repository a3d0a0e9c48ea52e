// Package announce announces on a link which MAC address an IP address has, unsolicited.
//
// Neighbours cache the answer to an earlier request until it expires, and a switch forwards frames for a MAC
// address to the port where it was last seen as source. Both are updated by the owner's announcement: a gratuitous
// ARP request, or an unsolicited neighbour advertisement.
package announce

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/utils/inet"
)

// Sender is the owner of addresses.
type Sender struct {
	MAC    [6]byte
	Router bool // it forwards packets: without the flag, neighbours would drop it as their IPv6 router
}

// Frame returns the announcement of an address of the sender.
func (s Sender) Frame(own netip.Addr) []byte {
	if own.Is4() {
		return s.gratuitousARP(own)
	}
	return s.advertisement(own)
}

// gratuitousARP returns a broadcast request for the sender's own address (RFC 5227, 3).
func (s Sender) gratuitousARP(own netip.Addr) []byte {
	four := own.As4()
	frame := make([]byte, 0, 60)
	frame = append(frame, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	frame = append(frame, s.MAC[:]...)
	frame = append(frame, 0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1) // Ethernet and IPv4, request
	frame = append(append(frame, s.MAC[:]...), four[:]...)
	frame = append(append(frame, make([]byte, 6)...), four[:]...)
	return frame[:60] // the minimum length
}

// Flags of an advertisement.
const (
	fromRouter = 0x80
	overrides  = 0x20
)

// advertisement returns an unsolicited neighbour advertisement to all nodes of the link (RFC 4861, 7.2.6).
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
