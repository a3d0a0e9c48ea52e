package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// flood copies a packet without a single receiver (broadcast, multicast, a MAC that no endpoint has) to all
// members of its bridged network.
//
//	DEST     no endpoint has this MAC: it is for all of the network
//	           from a local port: the meter of the port, and DEST again
//	           group of members    a copy for each endpoint on this node, back to DEST
//	           group of nodes      from a local port: at OUTPUT, a copy into the
//	                               tunnel to each node that has members
//	DEST     a copy finds its receiver by the MAC the group gave it
//
// Rules are applied to each copy for its receiver, as no packet may reach by broadcast an endpoint that it may
// not reach directly. For copies to other nodes they are applied there only: here the receivers are unknown,
// and a rule that denies all but one group would keep the packet from that group, too. So those nodes apply the
// tiers' rules for the sender's egress as well, which they do to no other packet from another node. Packets from
// the tunnel do not return to it, so there are no loops.
//
// One packet costs as much as there are members. The meter prevents an endpoint from using the time of all others
// this way.
//
// The sets contain the MACs of members. Port and group of a member are in the flows of its endpoint; without
// them, it is not here yet, and gets nothing.
type flood struct {
	tunnelPort uint32
	self       netip.Addr // no packet is tunnelled to it
}

// Groups of a network: its tag, and one of these.
const (
	groupMembers uint32 = 1 << 16
	groupNodes   uint32 = 2 << 16
)

// What an endpoint may flood, in packets: a stream of 10 Mbit/s in large ones, or, at once, a host that looks
// for a third of its neighbours in a /24: the kernel repeats requests without an answer three times, a second
// apart. More would cost other endpoints their packets: each node with members gets a copy of all, and a
// userspace switch reads an uplink by a socket that holds 277 small packets (net.core.rmem_default is 212,992
// bytes), also while it waits 80 ms for a processor.
const (
	floodedPerSecond = 1000
	floodedAtOnce    = 100
)

func (flood) base(w *Wants) {
	w.flow(at(tableDest, priorityOther, regFlooded.is(1)).drop(reasonNoCopy)) // a member that has no port
}

func (f flood) floodSet(w *Wants, s FloodSet) {
	if s.Encap == VLAN {
		return
	}
	tag := uint32(s.Tag)
	members := membersOf(s)
	nodes := openflow.Group{ID: groupNodes | tag, Type: openflow.GroupAll}
	for _, vtep := range s.VTEPs {
		if vtep == f.self {
			continue
		}
		nodes.Buckets = append(nodes.Buckets, openflow.Bucket{Actions: []openflow.Action{
			set(openflow.TunnelID(uint64(s.VNI))), set(openflow.TunDst(inet.Host(vtep))), openflow.Output{Port: f.tunnelPort},
		}})
	}
	w.Groups = append(w.Groups, members, nodes)

	toMembers := toMembersOf(s)
	w.flow(
		at(tableDest, priorityFlood, regNetwork.is(tag), regOrigin.is(originTunnel)).do(judgedHere()...).do(toMembers...).end(),
		at(tableDest, priorityFlood, regNetwork.is(tag), regOrigin.is(originLocal)).
			do(toMembers...).do(regTracked.set(0), regOut.set(outPeers)).goTo(tableForward),
		at(tableOutput, priorityExact, regNetwork.is(tag), regOut.is(outPeers)).do(openflow.OutputGroup{ID: nodes.ID}).end(),
	)
}

// membersOf returns the group with a copy for each member on this node.
func membersOf(s FloodSet) openflow.Group {
	members := openflow.Group{ID: groupMembers | uint32(s.Tag), Type: openflow.GroupAll}
	for _, mac := range s.Members {
		members.Buckets = append(members.Buckets, openflow.Bucket{Actions: []openflow.Action{
			keepMAC(mac), openflow.Resubmit{Table: tableDest},
		}})
	}
	return members
}

// toMembersOf sends the copies of the group.
func toMembersOf(s FloodSet) []openflow.Action {
	return []openflow.Action{regFlooded.set(1), regDstNet.set(uint32(s.Tag)), openflow.OutputGroup{ID: groupMembers | uint32(s.Tag)}}
}

// regFarTiers is where PEER and SOURCE keep the Tiers of the sender until DEST knows whether the packet is
// flooded: the place of the receiver's MAC, which every receiver sets.
var regFarTiers = Register{Index: regDstMAC.Index, Bits: 5}

// asFarSender is asSender for a sender of a bridged network whose packet comes by the tunnel or the uplink, and whose egress
// is judged here if it floods. One of this node is among them: a router may pass its multicast on.
func (e placed) asFarSender() []openflow.Action {
	sender := e.asSender()
	if out := e.Tiers & (JudgesOut | IsolatesOut); out != 0 {
		sender = append(sender, regFarTiers.set(uint32(out|Tracked)))
	}
	return sender
}

// judgedHere lets the tiers judge what is flooded from the tunnel or the uplink.
func judgedHere() (actions []openflow.Action) {
	from := openflow.Move{Src: openflow.FieldReg(regFarTiers.Index), Dst: openflow.FieldReg(regSrcTiers.Index)}
	for _, to := range []Register{regSrcTiers, regTracked} {
		from.DstOfs, from.Bits = to.Ofs, to.Bits
		actions = append(actions, from)
		from.SrcOfs += to.Bits
	}
	return actions
}

// endpoint delivers the copies for a local endpoint, and meters what it floods. No endpoint gets its own.
func (f flood) endpoint(w *Wants, e placed) {
	if !e.local() || !e.Mode.Bridged() {
		return
	}
	copyFor := append(keptMAC(e.MAC), regFlooded.is(1), regNetwork.is(uint32(e.Tag)))
	w.flow(
		at(tableDest, priorityExact, copyFor...).do(toReceiver(e, f.tunnelPort)...).goTo(tablePolicy),
		at(tableDest, priorityExcept, append(copyFor, openflow.InPort(e.port))...).drop(reasonNoCopy),
	)
	f.meter(w, e)
}

// meter limits what an endpoint floods. DST_NETWORK shows that a packet has passed it. On a VLAN only the
// uplink gets packets for an unknown MAC.
func (flood) meter(w *Wants, e placed) {
	id := floodedMeter(e.port)
	w.Meters = append(w.Meters, packetMeter(id, floodedPerSecond, floodedAtOnce))
	flooded := []openflow.FieldMatch{openflow.InPort(e.port), regFlooded.is(0), regNetwork.is(uint32(e.Tag)), regDstNet.is(0)}
	if e.Encap == VLAN {
		flooded = append(flooded, toAll())
	}
	w.flow(at(tableDest, priorityOther, flooded...).metered(id).do(regDstNet.set(uint32(e.Tag)), openflow.Resubmit{Table: tableDest}).end())
}
