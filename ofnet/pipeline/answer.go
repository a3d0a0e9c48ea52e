package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// answer is what the switch is going to answer itself: ARP, neighbour discovery
// and pings for a gateway, of local ports.
type answer struct{}

func (answer) endpoint(w *Wants, e placed) {
	if e.local() {
		w.flow(at(tableAnswer, priorityExact, openflow.InPort(e.port)).goTo(tableReply))
	}
}
