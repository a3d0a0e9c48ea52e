package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// output is the only exit. What leaves by a local port must carry the MAC of the endpoint there, whichever node
// it comes from: a port gets packets addressed to its endpoint and nothing else. In a bridged network the
// receiver was found by the MAC, unless the packet is flooded.
type output struct{ tunnelPort uint32 }

func (o output) base(w *Wants) {
	w.flow(at(tableOutput, priorityExact, regOut.is(outBack)).do(openflow.Output{Port: openflow.PortInPort}).end())
	if o.tunnelPort != 0 {
		w.flow(at(tableOutput, priorityGuard, regOut.is(o.tunnelPort)).do(openflow.Output{Port: o.tunnelPort}).end())
	}
}

// endpoint's flow counts all that others send to the endpoint, including what its limit drops.
func (output) endpoint(w *Wants, e placed) {
	if !e.local() {
		return
	}
	send := openflow.Output{Port: e.port}
	delivery := at(tableOutput, priorityExact, regOut.is(e.port))
	if !e.Mode.Bridged() {
		delivery.Match = append(delivery.Match, openflow.EthDst(e.MAC))
	}
	w.flow(delivery.metered(e.receivedMeter()).do(send).end())
	if e.Mode.Bridged() && e.receivedMeter() != 0 {
		// A meter that drops a copy also drops the copies behind it. What is sent to the MAC is no copy.
		w.flow(
			at(tableOutput, priorityExcept, regOut.is(e.port), regFlooded.is(1)).do(send).end(),
			at(tableOutput, priorityService, regOut.is(e.port), regFlooded.is(1), openflow.EthDst(e.MAC)).metered(e.receivedMeter()).do(send).end())
	}
}
