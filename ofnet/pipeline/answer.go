package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// answer limits what the switch answers itself: ARP, neighbour discovery and
// pings for a gateway.
//
// No datapath can rewrite such packets, so each of them goes through
// ovs-vswitchd, and a pod that sends nothing else could take all of its time.
// Therefore a question passes the meter of its port first. A meter alone would
// not help: where one of a flow's actions needs ovs-vswitchd, all of them are
// done there, the meter included. The group between the meter and the answer
// has one bucket, chosen by a hash that only the datapath can compute; so the
// datapath meters and hashes, and looks up anew what is left (it recirculates).
// Only that reaches ovs-vswitchd.
//
// Solicitations of neighbours pass meter and group before anybody looks at whom they are
// about (guard.go): the datapath keeps a flow for each address that was looked up, and asks
// ovs-vswitchd for it. ARP requests do not need this: of an IPv4 address the datapath's flow matches
// as many leading bits as tell it from the known ones, so that many addresses share a flow.
//
// Between the meter of the port and the group is one of all endpoints of the node, so that many that flood together take no
// more of ovs-vswitchd than it can spare. The datapath has both in one flow: what a port has too much of takes nothing from others.
//
//	ANSWER, GUARD   the meter of the port
//	ALL_PORTS       the meter of all endpoints; the group
//
// What the host asks, and routers outside, passes the meter of its port only: pods that flood keep neither waiting.
type answer struct{}

// The limit of a port, in packets. A host that starts may look for a thousand
// neighbours at once, and for as many again every ten seconds. All endpoints of a
// node together may ask as fast as fifty that flood; to answer that takes a
// fraction of a core.
const (
	answersPerSecond = 100
	answersAtOnce    = 1000

	answersOfAllPerSecond = 5000
	answersOfAllAtOnce    = 5000
)

// meterOfAll is the meter of all endpoints: packets to the agent have none of class 0.
const meterOfAll = meterPackets

// The groups that stand between the meter and the answer, and between the meter and
// the search for whom a solicitation is about.
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

// lookedUpAnew is a group behind which a packet goes on in a table, in another look-up of the datapath.
func lookedUpAnew(id uint32, in uint8) openflow.Group {
	return openflow.Group{ID: id, Type: openflow.GroupSelect, Buckets: []openflow.Bucket{
		{Weight: 1, Actions: []openflow.Action{openflow.Resubmit{Table: in}}},
	}}
}

// endpoint's meter has the number of its port, as no other endpoint has that;
// limit.go has more meters of a port.
func (answer) endpoint(w *Wants, e placed) {
	if e.local() {
		w.flow(e.together(asksSwitch(w, e.port), groupAnswer))
	}
}

// together ends a flow that has limited what a local endpoint asks: on to the meter of all, or past it to the group behind that.
func (e placed) together(asks flowBuilder, group uint32) openflow.Flow {
	if e.Host {
		return asks.do(openflow.OutputGroup{ID: group}).end()
	}
	return asks.goTo(tableAllPorts)
}

// questions limits and answers what a port that is no endpoint's asks the switch.
func questions(w *Wants, port uint32) {
	w.flow(asksSwitch(w, port).do(openflow.OutputGroup{ID: groupAnswer}).end())
}

// asksSwitch limits what a port asks the switch.
func asksSwitch(w *Wants, port uint32) flowBuilder {
	w.Meters = append(w.Meters, packetMeter(port, answersPerSecond, answersAtOnce))
	return at(tableAnswer, priorityExact, openflow.InPort(port)).metered(port)
}
