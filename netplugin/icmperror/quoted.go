package icmperror

import (
	"slices"

	"github.com/contiv/netplugin/utils/inet"
)

// restored returns the frame of an ICMP error with the quoted packet as its receiver has sent it; nil if the frame
// is no ICMP error, or a fragment. The switch has delivered the error to the receiver, so its destination is the
// source of the quoted packet.
//
// The quoted checksums of TCP and UDP stay as they are: hosts do not verify them, and most errors do not quote the
// whole packet.
func restored(frame []byte) []byte {
	frame = slices.Clone(frame)
	p, ok := parse(frame)
	if !ok || !p.isError() || p.Fragment || len(p.Payload) < inet.ICMPSize+p.size {
		return nil
	}
	about := p.Payload[inet.ICMPSize:]
	if about[0]>>4 != p.Header[0]>>4 {
		return nil
	}
	if p.IsIPv6() {
		about = about[:p.size]
	} else {
		size := int(about[0]&0xf) * 4
		if size < inet.IPv4Size || size > len(about) {
			return nil
		}
		about = about[:size]
	}
	copy(inet.Packet{Header: about}.Src(), p.Dst())
	if !p.IsIPv6() {
		inet.SumIPv4(about)
	}
	p.sumICMP()
	return frame
}
