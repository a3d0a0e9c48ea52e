package pipeline

import "github.com/contiv/netplugin/ofnet/openflow"

// slowed limits all that an endpoint sends whose headers are of so many kinds that they slow the node down. Who that is
// the driver finds out (drivers/ovsd/slowed.go).
//
//	CLASSIFY   from its port: the meter, and the group that looks up anew
//	SLOWED     what CLASSIFY does otherwise
//
// What such headers cost is looking them up for the first time: ovs-vswitchd is asked for a flow, and the datapath gets
// one mask more. Behind a meter alone they would go on costing that, as packets meet it in the flow that was made for
// them. So nothing of a packet is looked at before the meter but the port that it comes in by; the group lets the
// datapath look up anew only what is left (answer.go tells how).
//
// There are flows in the datapath already, by ever other masks, and as long as they are used ovs-vswitchd would keep them:
// it gives them what is to be done now, and does not mind that they look at more than is needed. Those that look at less it
// removes. So the flow looks at something that no other does, the mark of the packet, which a pod's never has.
type slowed struct{}

// The limit of a slowed port, in packets. The datapath forgets flows, and their masks, that nobody has used for ten
// seconds: so many packets make no more masks than an endpoint may have that is not slowed. Some at once let one
// connection after the other be made.
const (
	slowedPerSecond = 20
	slowedAtOnce    = 100
)

// groupSlowed stands between the meter and SLOWED.
const groupSlowed = 3

func (slowed) base(w *Wants) { w.Groups = append(w.Groups, lookedUpAnew(groupSlowed, tableSlowed)) }

// endpoint's flow takes the place of that of classify.
func (slowed) endpoint(w *Wants, e placed) {
	if !e.slowedDown() {
		return
	}
	meter := slowedMeter(e.port)
	w.Meters = append(w.Meters, packetMeter(meter, slowedPerSecond, slowedAtOnce))
	w.flow(at(tableClassify, priorityExact, openflow.InPort(e.port)).metered(meter).
		do(openflow.Move{Src: openflow.FieldPktMark, Dst: openflow.FieldReg(regNetwork.Index), Bits: 1}, openflow.OutputGroup{ID: groupSlowed}).end())
}

// slowedDown tells whether what it sends is limited so. The host itself never is: much of what it sends is for others.
func (e placed) slowedDown() bool { return e.local() && e.Slowed && !e.Host }

// SlowsDown tells whether a meter is that of a slowed port.
func SlowsDown(meter uint32) bool { return meter >= meterSlowed && meter <= LastMeter }
