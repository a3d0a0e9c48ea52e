package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// output is the only way out. What leaves by a local port must carry the MAC of
// the endpoint there, whichever node it comes from: who has a port gets what is
// addressed to it and nothing else. In a bridged network the MAC is what the
// receiver was found by, unless the packet is for all of them.
type output struct{ tunnelPort uint32 }

func (o output) base(w *Wants) {
	w.flow(at(tableOutput, priorityExact, regOut.is(outBack)).do(openflow.Output{Port: openflow.PortInPort}).end())
	if o.tunnelPort != 0 {
		w.flow(at(tableOutput, priorityGuard, regOut.is(o.tunnelPort)).do(openflow.Output{Port: o.tunnelPort}).end())
	}
}

// endpoint's flow counts all that others send to the endpoint, what its limit
// drops included.
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
		// A meter that drops a copy takes the copies behind it along.
		w.flow(at(tableOutput, priorityExcept, regOut.is(e.port), regFlooded.is(1)).do(send).end())
	}
}
