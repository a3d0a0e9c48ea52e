package pathmtu

import "slices"

// Restored returns the frame of an ICMP error so that it quotes the packet as its receiver
// has sent it; nil if it is none, or a part of one. The switch has brought the error to the
// receiver, so whoever it is for is the sender of what it quotes.
//
// The quoted checksums of TCP and UDP stay as they are: hosts do not look at them, and most
// errors quote less than they are about.
func Restored(frame []byte) []byte {
	frame = slices.Clone(frame)
	p, ok := parse(frame)
	if !ok || !p.isError() || p.part || len(p.payload) < icmpSize+p.size {
		return nil
	}
	about := p.payload[icmpSize:]
	if about[0]>>4 != p.header[0]>>4 {
		return nil
	}
	if p.six() {
		about = about[:p.size]
	} else {
		size := int(about[0]&0xf) * 4
		if size < ipv4Size || size > len(about) {
			return nil
		}
		about = about[:size]
	}
	copy(packet{version: p.version, header: about}.src(), p.dst())
	if !p.six() {
		sumHeader(about)
	}
	p.sumICMP()
	return frame
}
