package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// stray drops fragments that the connection tracker returns together with another packet.
//
// The tracker of the userspace datapath holds the fragments of a packet until it has all of them. Those that it
// has held for 15 seconds in vain it adds to the next packets that it processes, of any sender and in any zone.
// From there such a fragment would continue as they do: with their registers, and so in their tenant, past
// their policy. The tracker marks it as invalid and not tracked, which it does for nothing else, so it is
// dropped wherever packets come back from the tracker. Therefore nothing follows a ct() in its own pass: what a
// pass does after one also applies to such fragments, and no flow sees them. Copies for all of a bridged
// network are made in one pass, so the tracker gets them only in a clone.
type stray struct{}

// comeBack are the tables where the connection tracker returns packets.
var comeBack = []uint8{tableSource, tableDest, tableForward, tableOutput, tableBegun, tableKnown, tableAdmitted, tableAnswered, tableRelated}

// aside applies actions to a copy of the packet, unless they are the last of the pass. Their changes
// do not affect later actions.
func aside(actions ...openflow.Action) openflow.Action { return openflow.Clone{Actions: actions} }

// visitAside is aside for a table with a ct(). If none of a clone's own actions is a ct(), Open vSwitch makes no clone: the
// table's ct() would be executed on the packet itself, and so the rest of the pass on stray fragments. The ct() at the end only
// looks the copy up, in a zone that has no connections: in that of a removed connection, ovs-vswitchd 3.1 ends by an assertion.
func visitAside(table uint8, actions ...openflow.Action) openflow.Action {
	return aside(append(actions, openflow.Resubmit{Table: table}, openflow.CT{})...)
}

func (stray) base(w *Wants) {
	for _, table := range comeBack {
		w.flow(at(table, priorityStray, openflow.CTState(openflow.CTInv, openflow.CTInv|openflow.CTTrk)).drop(reasonStray))
	}
}
