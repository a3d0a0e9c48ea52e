package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// stray stops fragments that the connection tracker gives back on the way of another packet.
//
// The tracker of the userspace datapath keeps the fragments of a packet until it has all of
// them. What it has kept for 15 seconds in vain it adds to the next packets that it is asked
// about, whoever sends them and in whatever zone. From there such a fragment would go on as
// they do: with their registers, and so in their tenant, behind their policy. It says of it
// that it is invalid and was not tracked, which it says of nothing else, so it is dropped
// wherever packets come back from the tracker. Therefore nothing follows a ct() in its own
// pass: what a pass does behind one it does to such fragments, too, and no flow sees them. Copies for
// all of a bridged network are made in one pass, so what gives one of them to the tracker does
// that aside.
type stray struct{}

// comeBack are the tables where the connection tracker gives packets back.
var comeBack = []uint8{tableSource, tableDest, tableForward, tableOutput, tableBegun, tableKnown, tableAdmitted, tableAnswered, tableRelated}

// aside does actions to a copy of the packet, unless they are the last of the pass. What they
// add to it is not there for those behind.
func aside(actions ...openflow.Action) openflow.Action { return openflow.Clone{Actions: actions} }

func (stray) base(w *Wants) {
	for _, table := range comeBack {
		w.flow(at(table, priorityStray, openflow.CTState(openflow.CTInv, openflow.CTInv|openflow.CTTrk)).drop(reasonStray))
	}
}
