package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// source tells the policy the group of a sender on another node.
//
// It is looked up by VRF and address. The address alone would not do, as
// tenants may use the same subnets; the network would be too narrow, as a
// packet that was routed has left the sender's network. A sender without a
// group needs no flow: the register is zero anyway.
type source struct{}

func (source) endpoint(w *Wants, e placed) {
	if e.local() || e.Group == 0 || e.Mode.Bridged() {
		return
	}
	for _, a := range e.addresses() {
		f := familyOf(a)
		w.flow(at(tableSource, priorityExact, f.is(), regVRF.is(uint32(e.VRF)), f.src(openflow.Host(a))).
			do(regSrcGroup.set(uint32(e.Group))).goTo(tableDest))
	}
}
