package announcer

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
)

// framesOf announce an endpoint, one for each of its addresses.
func framesOf(e pipeline.Endpoint) (frames [][]byte) {
	if e.IPv4.IsValid() {
		frames = append(frames, gratuitousARP(e.MAC, e.IPv4))
	}
	if e.IPv6.IsValid() {
		frames = append(frames, advertisement(e.MAC, e.IPv6))
	}
	return frames
}

// gratuitousARP is a question to all for the sender's own address (RFC 5227, 3).
func gratuitousARP(mac [6]byte, own netip.Addr) []byte {
	four := own.As4()
	frame := make([]byte, 0, 60)
	frame = append(frame, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	frame = append(frame, mac[:]...)
	frame = append(frame, 0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1) // Ethernet and IPv4: a request
	frame = append(append(frame, mac[:]...), four[:]...)
	frame = append(append(frame, make([]byte, 6)...), four[:]...)
	return frame[:60] // the shortest there is
}

// advertisement says to all nodes of the link whose an address is, unasked (RFC 4861, 7.2.6).
func advertisement(mac [6]byte, own netip.Addr) []byte {
	const overrides = 0x20
	source, to := own.As16(), netip.IPv6LinkLocalAllNodes().As16()
	body := append([]byte{136, 0, 0, 0, overrides, 0, 0, 0}, source[:]...)
	body = append(append(body, 2, 1), mac[:]...) // the target's MAC
	frame := append(append([]byte{0x33, 0x33, 0, 0, 0, 1}, mac[:]...), 0x86, 0xdd)
	frame = append(frame, 0x60, 0, 0, 0, 0, byte(len(body)), 58, 255)
	frame = append(append(frame, source[:]...), to[:]...)
	pseudo := inet.Sum(source[:], inet.Sum(to[:], uint32(len(body))+58))
	binary.BigEndian.PutUint16(body[2:], inet.Checksum(body, pseudo))
	return append(frame, body...)
}
