package pipeline

import "github.com/contiv/netplugin/ofnet/openflow"

// slowed limits all that an endpoint sends if its headers are of so many kinds that they slow the node down.
// The driver finds such endpoints (drivers/ovsd/slowed.go).
//
//	CLASSIFY   from its port: the meter, and the group that looks up anew
//	SLOWED     what CLASSIFY does otherwise
//
// Such headers are expensive when they are looked up for the first time: an upcall asks ovs-vswitchd for a
// flow, and the datapath gets one more mask. Behind a meter alone they would still cost that, as packets reach
// it in the flow that was made for them. So no field of a packet is matched before the meter except its ingress
// port; the group makes the datapath look up only what passes (see answer.go).
//
// The datapath has flows already, with many masks, and as long as they are used ovs-vswitchd would keep them: it
// updates their actions, and accepts that they match more fields than needed. It removes those that match fewer. So
// the flow matches a field that no other flow does, the mark of the packet, which a pod's packet never has.
type slowed struct{}

// The limit of a slowed port, in packets. The datapath removes flows, and their masks, that were unused for ten
// seconds: this rate makes no more masks than an endpoint may have that is not slowed. The burst lets
// connections be made one after the other.
const (
	slowedPerSecond = 20
	slowedAtOnce    = 100
)

// groupSlowed is between the meter and SLOWED.
const groupSlowed = 3

func (slowed) base(w *Wants) { w.Groups = append(w.Groups, lookedUpAnew(groupSlowed, tableSlowed)) }

// endpoint's flow replaces that of classify.
func (slowed) endpoint(w *Wants, e placed) {
	if !e.slowedDown() {
		return
	}
	meter := slowedMeter(e.port)
	w.Meters = append(w.Meters, packetMeter(meter, slowedPerSecond, slowedAtOnce))
	w.flow(at(tableClassify, priorityExact, openflow.InPort(e.port)).metered(meter).
		do(openflow.Move{Src: openflow.FieldPktMark, Dst: openflow.FieldReg(regNetwork.Index), Bits: 1}, openflow.OutputGroup{ID: groupSlowed}).end())
}

// slowedDown reports whether an endpoint is limited this way. The host itself never is: much of what it sends is for
// others.
func (e placed) slowedDown() bool { return e.local() && e.Slowed && !e.Host }

// SlowsDown reports whether a meter is that of a slowed port.
func SlowsDown(meter uint32) bool { return meter >= meterSlowed && meter <= LastMeter }
