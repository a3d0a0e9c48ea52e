package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// answer limits what the switch answers itself: ARP, neighbour discovery and pings for a gateway.
//
// No datapath can rewrite such packets, so each of them goes through ovs-vswitchd, and a pod that sends nothing else
// could use all of its time. Therefore a request passes the meter of its port first. A meter alone would not help:
// if one of a flow's actions needs ovs-vswitchd, it executes all of them, including the meter. The group between the
// meter and the answer has one bucket, chosen by a hash that only the datapath can compute; so the datapath meters
// and hashes, and looks up the remaining packets again (it recirculates). Only these reach ovs-vswitchd.
//
// Neighbour solicitations pass meter and group before their target is matched (guard.go): the datapath has a
// flow for each target that was looked up, and each needs an upcall to ovs-vswitchd. ARP requests do not need
// this: the datapath's flow matches only as many leading bits of an IPv4 address as distinguish it from the
// known ones, so that many addresses share a flow.
//
// Between the meter of the port and the group is one of all endpoints of the node, so that many that flood
// together use no more of ovs-vswitchd than it can spare. The datapath has both in one flow: the excess of a
// port does not count for others.
//
//	ANSWER, GUARD   the meter of the port
//	ALL_PORTS       the meter of all endpoints; the group
//
// Requests of the host and of external routers pass the meter of their port only: pods that flood delay neither.
type answer struct{}

// The limit of a port, in packets. A host that starts may look for a thousand neighbours at once, and for as
// many again every ten seconds. All endpoints of a node together may send as many requests as fifty that flood;
// answering them takes a fraction of a core.
const (
	answersPerSecond = 100
	answersAtOnce    = 1000

	answersOfAllPerSecond = 5000
	answersOfAllAtOnce    = 5000
)

// The groups between the meter and the answer, and between the meter and the look-up of a solicitation's target.
const (
	groupAnswer = 1
	groupAsked  = 2
)

func (answer) base(w *Wants) {
	w.Groups = append(w.Groups, lookedUpAnew(groupAnswer, tableReply), lookedUpAnew(groupAsked, tableNeighbour))
	w.Meters = append(w.Meters, packetMeter(meterOfAll, answersOfAllPerSecond, answersOfAllAtOnce))
	w.flow(
		at(tableAllPorts, priorityExact, icmpv6(openflow.NDSolicit)...).metered(meterOfAll).do(openflow.OutputGroup{ID: groupAsked}).end(),
		at(tableAllPorts, priorityOther).metered(meterOfAll).do(openflow.OutputGroup{ID: groupAnswer}).end())
}

// lookedUpAnew returns a group that continues a packet in a table, in another look-up of the datapath.
func lookedUpAnew(id uint32, in uint8) openflow.Group {
	return openflow.Group{ID: id, Type: openflow.GroupSelect, Buckets: []openflow.Bucket{
		{Weight: 1, Actions: []openflow.Action{openflow.Resubmit{Table: in}}},
	}}
}

// endpoint's meter has the number of its port, as no other endpoint has that.
func (answer) endpoint(w *Wants, e placed) {
	if e.local() {
		w.flow(e.together(asksSwitch(w, e.port), groupAnswer))
	}
}

// together ends a flow that has limited a local endpoint's requests: in the meter of all endpoints,
// or past it in the group behind that.
func (e placed) together(asks flowBuilder, group uint32) openflow.Flow {
	if e.Host {
		return asks.do(openflow.OutputGroup{ID: group}).end()
	}
	return asks.goTo(tableAllPorts)
}

// questions limits and answers requests to the switch from a port that is no endpoint's.
func questions(w *Wants, port uint32) {
	w.flow(asksSwitch(w, port).do(openflow.OutputGroup{ID: groupAnswer}).end())
}

// asksSwitch limits a port's requests to the switch.
func asksSwitch(w *Wants, port uint32) flowBuilder {
	w.Meters = append(w.Meters, packetMeter(port, answersPerSecond, answersAtOnce))
	return at(tableAnswer, priorityExact, openflow.InPort(port)).metered(port)
}
