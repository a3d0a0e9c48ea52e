package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// classify finds the origin of a packet.
//
// A local port belongs to one endpoint, so the port gives the VRF, network and group of the sender; the guard
// decides whether its addresses are valid. All nodes share one tunnel port; the VNI gives the network of a
// packet. The sending node has routed it already, so that is the receiver's network, and the sender may be in
// another one of the same tenant: table PEER checks whether it is on that node.
//
// The table is small: one flow per port and per network. That makes it possible to replace the
// pipeline while it runs (tables.go).
type classify struct{ tunnelPort uint32 }

// groupBit is the bit that makes a MAC a multicast or broadcast address.
var groupBit = [6]byte{0x01}

func (classify) base(w *Wants) {
	w.flow(
		// Who deletes all flows deletes this one. The switch reports it, so that they are back before the next audit.
		at(tableClassify, priorityGuard, openflow.EthSrcMasked(groupBit, groupBit)).reported().drop(reasonIllegal),
		// A tag would hide the packet's final network from the guard.
		at(tableClassify, priorityGuard, openflow.VLANAny()).drop(reasonIllegal),
	)
}

func (c classify) network(w *Wants, n Network) {
	if n.Encap == VLAN {
		return
	}
	w.flow(at(tableClassify, priorityExact, openflow.InPort(c.tunnelPort), openflow.TunnelID(uint64(n.VNI))).
		do(arrived(originTunnel)...).do(regVRF.set(uint32(n.VRF)), regNetwork.set(uint32(n.Tag))).
		goTo(tablePeer))
}

// endpoint's flow counts all that the endpoint sends.
func (classify) endpoint(w *Wants, e placed) {
	if !e.local() {
		return
	}
	table := tableClassify
	if e.slowedDown() {
		table = tableSlowed
	}
	sender := at(table, priorityExact, openflow.InPort(e.port)).metered(e.sentMeter()).
		do(arrived(originLocal)...).do(regVRF.set(uint32(e.VRF)), regNetwork.set(uint32(e.Tag)))
	w.flow(sender.do(e.asSender()...).goOnIn(tableGuard))
}
