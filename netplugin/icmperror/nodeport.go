package icmperror

import (
	"encoding/binary"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
)

// NodePorts returns the VRF of the tenant that owns the service of a node port; 0 if there is none.
type NodePorts func(protocol uint8, port uint16) (vrf uint16)

// enter returns an error about an answer for the tenant of the node port that has answered; false if there is
// none.
func (vrfOf NodePorts) enter(p pipeline.Packet) (openflow.PacketOut, bool) {
	protocol, port, ok := quotedPort(p.Data)
	if !ok {
		return openflow.PacketOut{}, false
	}
	vrf := vrfOf(protocol, port)
	return p.EnterIn(vrf), vrf != 0
}

// quotedPort returns the source port of the TCP or UDP packet quoted by the ICMP error in a frame; false if the
// frame is no such error, or is a fragment, or quotes too little.
func quotedPort(frame []byte) (protocol uint8, port uint16, ok bool) {
	p, ok := parse(frame)
	if !ok || !p.isError() || p.Fragment {
		return 0, 0, false
	}
	about, size := p.Payload[inet.ICMPSize:], p.size
	if len(about) < size || about[0]>>4 != p.Header[0]>>4 {
		return 0, 0, false
	}
	if protocol = about[6]; !p.IsIPv6() {
		protocol, size = about[9], int(about[0]&0xf)*4
		if size < inet.IPv4Size || binary.BigEndian.Uint16(about[6:])&0x1fff != 0 { // a later fragment
			return 0, 0, false
		}
	}
	if protocol != inet.TCP && protocol != inet.UDP || len(about) < size+2 {
		return 0, 0, false
	}
	return protocol, binary.BigEndian.Uint16(about[size:]), true
}
