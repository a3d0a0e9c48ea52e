package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// uplink joins bridged networks to the VLANs of the physical network. Their
// bridge has the uplink where others have the tunnel.
//
//	CLASSIFY   the VLAN of a packet from the uplink gives its network, and is
//	           removed; a VLAN that is no known network is dropped
//	DEST       flooded from a local port: all of the network, and the uplink; an
//	           unknown receiver is outside, and only the uplink gets the packet
//	           from the uplink: as from the tunnel; an unknown receiver is not here
//	OUTPUT     the network's VLAN is added
//
// No MAC is learned: all local ones are known, as no port can send from another one. So a packet for
// a router is copied to no endpoint.
//
// Flooded packets leave if the rules let the sender reach receivers without a group. External machines accept
// broadcasts, and no other node would apply rules for them; endpoints of other nodes then get no copy, even if they
// may receive it.
//
// Networks of one tenant may be joined by an external router, which puts its own MAC on the packets. Groups
// and classes are therefore looked up by VRF and address where the MAC does not identify an endpoint: the receiver's
// before a packet leaves, the sender's when one comes in, also of endpoints on this node. No router forwards what an
// endpoint sends from an address that is not in its record, such as the link-local one of its MAC: there the
// sender is found by the MAC. Senders and receivers that are no endpoints have neither.
type uplink struct{ port uint32 }

// unicast matches frames to one host, and toAll all others.
func unicast() openflow.FieldMatch { return openflow.EthDstMasked([6]byte{}, groupBit) }
func toAll() openflow.FieldMatch   { return openflow.EthDstMasked(groupBit, groupBit) }

func (u uplink) network(w *Wants, n Network) {
	if n.Encap != VLAN || !n.Mode.Bridged() {
		return
	}
	tag := uint32(n.Tag)
	w.flow(
		at(tableClassify, priorityTrunk, openflow.InPort(u.port), openflow.VLANVID(n.Tag), openflow.EthSrcMasked([6]byte{}, groupBit)).
			do(openflow.PopVLAN{}).do(arrived(originTunnel)...).do(regVRF.set(uint32(n.VRF)), regNetwork.set(tag)).goTo(tableSource),
		at(tableDest, priorityFlood, regNetwork.is(tag), regOrigin.is(originLocal), unicast()).
			do(regDstNet.set(tag), regOut.set(u.port)).goTo(tablePolicy),
		at(tableOutput, priorityExact, regNetwork.is(tag), regOut.is(u.port)).
			do(openflow.PushVLAN{TPID: openflow.EthTypeVLAN}, set(openflow.VLANVID(n.Tag)), openflow.Output{Port: u.port}).end(),
	)
}

func (u uplink) floodSet(w *Wants, s FloodSet) {
	if s.Encap != VLAN {
		return
	}
	w.Groups = append(w.Groups, membersOf(s))
	inNetwork := regNetwork.is(uint32(s.Tag))
	w.flow(
		at(tableDest, priorityFlood, inNetwork, regOrigin.is(originTunnel), toAll()).do(judgedHere()...).do(toMembersOf(s)...).end(),
		at(tableDest, priorityFlood, inNetwork, regOrigin.is(originLocal), toAll()).
			do(toMembersOf(s)...).do(regOut.set(u.port)).goTo(tablePolicy),
	)
}

// endpoint sets the group and the class by an endpoint's address, with any MAC, and by its MAC, with an address of no
// endpoint. The sender's guard has decided which these may be (guard.go, bridge.go).
func (u uplink) endpoint(w *Wants, e placed) {
	sender := e.asFarSender()
	if e.Encap != VLAN || e.Group == 0 && e.Class == 0 && len(sender) == 0 || !e.Mode.Bridged() {
		return
	}
	w.flow(at(tableSource, priorityOther, regNetwork.is(uint32(e.Tag)), openflow.EthSrc(e.MAC)).do(sender...).goTo(tableDest))
	for _, a := range e.addresses() {
		f, inVRF := familyOf(a), regVRF.is(uint32(e.VRF))
		w.flow(
			at(tableSource, priorityExact, f.is(), inVRF, f.src(inet.Host(a))).do(sender...).goTo(tableDest),
			at(tableDest, priorityNear, f.is(), inVRF, f.dst(inet.Host(a)), regOrigin.is(originLocal), unicast()).
				do(e.asReceiver()...).do(sameNetwork(), regOut.set(u.port)).goTo(tablePolicy))
	}
}

// sameNetwork lets a packet leave in the network in which it came in.
func sameNetwork() openflow.Action {
	return openflow.Move{
		Src: openflow.FieldReg(regNetwork.Index), SrcOfs: regNetwork.Ofs,
		Dst: openflow.FieldReg(regDstNet.Index), DstOfs: regDstNet.Ofs, Bits: regNetwork.Bits,
	}
}
