package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// tunnel is the way in from other nodes.
//
// All nodes share one tunnel port; the VNI says which network a packet is in.
// The sending node has routed it already, so that is the receiver's network,
// and the sender may live in another one of the same tenant. Its group is
// therefore looked up by VRF and address (group.go).
//
// FROM_TUNNEL marks the packet for the rest of its way: it is not routed a
// second time and does not go back into the tunnel.
type tunnel struct {
	silent
	port uint32
}

func (t tunnel) network(n Network) []openflow.Flow {
	return []openflow.Flow{
		at(tablePort, priorityExact, openflow.InPort(t.port), openflow.TunnelID(uint64(n.VNI))).
			do(regFromTunnel.set(1), regVRF.set(uint32(n.VRF)), regNetwork.set(uint32(n.Tag))).
			goTo(tableSrcGroup),
	}
}
