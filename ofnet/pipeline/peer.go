package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// Peer is another node, by its tunnel endpoint.
type Peer struct{ VTEP netip.Addr }

// Key identifies the peer.
func (p Peer) Key() Key { return Key{KindPeer, p.VTEP.String()} }

// Equal compares all fields.
func (p Peer) Equal(other Object) bool { return other == Object(p) }

// peers restrict, in table PEER, the senders that each node may send for. A packet from the tunnel contains its
// network and sender itself, and any host that reaches UDP 4789 of this node can forge them. They are accepted
// if the sender is on the node that the packet comes from:
//
//	routed    VRF, address of an endpoint, and the tunnel address of its node
//	bridged   network, MAC of an endpoint, and the tunnel address of its node
//	entrance  entranceMAC, and the tunnel address of any node: clients that come in by
//	          the host have addresses that are unknown here (entrance.go)
//
// The same flow sets the group and the class of the sender, for the policy and the tiers (source.go). An endpoint
// has one record, which names one node: when it moves, it is accepted from the new one as soon as its record here
// says so. If two records have an address, as while another endpoint gets it, both nodes are accepted.
//
// Nodes are trusted to guard their own ports, and to send from their own tunnel address: the network
// between them has to drop forged ones.
type peers struct{}

// sends matches what comes out of the tunnel from a node.
func (peers) sends(from netip.Addr, priority uint16, match ...openflow.FieldMatch) flowBuilder {
	return at(tablePeer, priority, append(openflow.Match{openflow.TunSrc(inet.Host(from))}, match...)...)
}

func (p peers) endpoint(w *Wants, e placed) {
	if e.local() || e.Encap == VLAN {
		return
	}
	if e.Mode.Bridged() {
		w.flow(p.sends(e.VTEP, priorityExact, regNetwork.is(uint32(e.Tag)), openflow.EthSrc(e.MAC)).
			do(e.asFarSender()...).backTo(tableDest))
		return
	}
	for _, a := range e.addresses() {
		f := familyOf(a)
		w.flow(p.sends(e.VTEP, priorityExact, f.is(), regVRF.is(uint32(e.VRF)), f.src(inet.Host(a))).
			do(e.asSender()...).backTo(tableDest))
	}
}

func checkPeer(p Peer) error {
	if !p.VTEP.IsValid() || p.VTEP.IsUnspecified() || p.VTEP.IsMulticast() {
		return fault.New(fault.Invalid, "peer %q: not the tunnel address of a node", p.VTEP)
	}
	return nil
}
