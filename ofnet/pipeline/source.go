package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// source sets the group and the class of a sender behind an external router, for the policy and the tiers. For
// one behind the tunnel table PEER sets them (peer.go).
//
// It is looked up by VRF and address. The address alone is not enough, as tenants may use the same subnets; the
// network would be too narrow, as a packet that was routed has left the sender's network. A sender without
// group and class needs no flow: the registers are zero anyway.
type source struct{}

func (source) endpoint(w *Wants, e placed) {
	if !e.behindRouter() || e.Group == 0 && e.Class == 0 {
		return
	}
	for _, a := range e.addresses() {
		f := familyOf(a)
		w.flow(at(tableSource, priorityExact, f.is(), regVRF.is(uint32(e.VRF)), f.src(inet.Host(a))).
			do(e.asSender()...).goTo(tableDest))
	}
}

// asSender sets the sender's group and class for rules and tiers.
func (e placed) asSender() (actions []openflow.Action) {
	if e.Group != 0 {
		actions = append(actions, regSrcGroup.set(uint32(e.Group)))
	}
	return append(actions, e.classed(regSrcClass, regSrcTiers)...)
}
