package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// deliver is the way out: to a local port or to the node of the receiver.
//
// The receiver is found by network and MAC. Its address is compared as well:
// policy was judged by address, and a packet that carries one endpoint's
// address to another's MAC would pass by the rules of the first.
//
// There is one tunnel port. A packet for a remote endpoint gets the VNI of its
// network and the tunnel address of its node; peers are not ports.
//
// Multicast and broadcast have no receiver in this mode. They are counted
// apart from unicast to unknown receivers, which hints at a fault.
type deliver struct {
	silent
	tunnelPort uint32
}

func (deliver) base() []openflow.Flow {
	return []openflow.Flow{at(tableDeliver, priorityGuard, openflow.EthDstMasked(groupBit, groupBit)).drop()}
}

func (d deliver) endpoint(e placed) []openflow.Flow {
	var flows []openflow.Flow
	for _, a := range e.addresses() {
		f := familyOf(a)
		receiver := openflow.Match{
			regNetwork.is(uint32(e.Tag)), openflow.EthDst(e.MAC), f.is(), f.dst(openflow.Host(a)),
		}
		if e.local() {
			flows = append(flows, at(tableDeliver, priorityExact, receiver...).output(e.port))
			continue
		}
		flows = append(flows, at(tableDeliver, priorityExact, append(receiver, regFromTunnel.is(0))...).
			do(
				set(openflow.TunnelID(uint64(e.VNI))),
				set(openflow.TunDst(openflow.Host(e.VTEP))),
			).output(d.tunnelPort))
	}
	return flows
}
