package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// flood gives a packet that is for nobody in particular (broadcast, multicast,
// a MAC that nobody has) to everybody in its bridged network.
//
//	DEST     nobody has this MAC: it is for all of the network
//	           from a local port: the meter of the port, and DEST again
//	           group of members    a copy for each endpoint on this node, back to DEST
//	           group of nodes      from a local port: at OUTPUT, a copy into the
//	                               tunnel to each node that has members
//	DEST     a copy finds its receiver by the MAC the group gave it
//
// Each copy is judged for its receiver, as no packet may reach by way of a
// broadcast whom it may not reach directly. What goes to other nodes is judged
// there only: here nobody knows for whom, and a rule that denies all but one
// group would keep the packet from that group, too. What comes out of the tunnel
// does not go back into it, so nothing goes round.
//
// One packet costs as many as there are members. The meter keeps an endpoint from taking the
// time of all others so.
//
// The sets name members by their MAC. Port and group of a member are in the
// flows of its endpoint; without them, it is not here yet, and gets nothing.
type flood struct {
	tunnelPort uint32
	self       netip.Addr // nothing is tunnelled to it
}

// Groups of a network: its tag, and one of these.
const (
	groupMembers uint32 = 1 << 16
	groupNodes   uint32 = 2 << 16
)

// What an endpoint may flood, in packets: a stream of 10 Mbit/s in large ones, or, at once, a host
// that looks for a third of its neighbours in a /24: of those that get no answer the kernel asks
// three times, a second apart. More would cost others theirs: each node with members gets a copy of
// all, and a switch in user space reads an uplink by a socket that holds 277 small packets
// (net.core.rmem_default is 212,992 bytes), also while it waits 80 ms for a processor.
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
		at(tableDest, priorityFlood, regNetwork.is(tag), regOrigin.is(originTunnel)).do(toMembers...).end(),
		at(tableDest, priorityFlood, regNetwork.is(tag), regOrigin.is(originLocal)).
			do(toMembers...).do(regOut.set(outPeers)).goTo(tableForward),
		at(tableOutput, priorityExact, regNetwork.is(tag), regOut.is(outPeers)).do(openflow.OutputGroup{ID: nodes.ID}).end(),
	)
}

// membersOf is the group with a copy for each member on this node.
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

// endpoint takes the copies for a local endpoint, and meters what it floods. Nobody gets his own.
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

// meter limits what an endpoint floods. DST_NETWORK tells that it has passed. On a VLAN
// only one, the uplink, gets what is for a MAC that is not known.
func (flood) meter(w *Wants, e placed) {
	id := floodedMeter(e.port)
	w.Meters = append(w.Meters, packetMeter(id, floodedPerSecond, floodedAtOnce))
	flooded := []openflow.FieldMatch{openflow.InPort(e.port), regFlooded.is(0), regNetwork.is(uint32(e.Tag)), regDstNet.is(0)}
	if e.Encap == VLAN {
		flooded = append(flooded, toAll())
	}
	w.flow(at(tableDest, priorityOther, flooded...).metered(id).do(regDstNet.set(uint32(e.Tag)), openflow.Resubmit{Table: tableDest}).end())
}
