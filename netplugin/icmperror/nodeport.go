package icmperror

import (
	"encoding/binary"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
)

// NodePorts tells the VRF of the tenant whose service has a node port; 0: nobody's.
type NodePorts func(protocol uint8, port uint16) (vrf uint16)

// enter sends an error about an answer on to the tenant whose node port has answered.
func (vrfOf NodePorts) enter(p pipeline.Packet) (openflow.PacketOut, bool) {
	protocol, port, ok := quotedPort(p.Data)
	if !ok {
		return openflow.PacketOut{}, false
	}
	vrf := vrfOf(protocol, port)
	return p.EnterIn(vrf), vrf != 0
}

// quotedPort is the port of TCP or UDP from which the packet was sent that the ICMP error in a frame quotes; false: it is no such
// error, or a part of one, or quotes less.
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
