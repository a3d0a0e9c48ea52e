package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// group tells the policy which groups a packet is between.
//
// The sender's group is known from the port if the sender is local (input.go);
// the group of a remote sender, and that of any receiver, is looked up by VRF
// and address. The address alone would not do, as tenants may use the same
// subnets; the network would be too narrow, as a packet that was routed has
// left the sender's network.
//
// An endpoint without a group needs no flow: the registers are zero anyway.
type group struct{ silent }

func (group) endpoint(e placed) []openflow.Flow {
	if e.Group == 0 {
		return nil
	}
	var flows []openflow.Flow
	for _, a := range e.addresses() {
		f, vrf := familyOf(a), regVRF.is(uint32(e.VRF))
		flows = append(flows, at(tableDstGroup, priorityExact, vrf, f.is(), f.dst(openflow.Host(a))).
			do(regDstGroup.set(uint32(e.Group))).goTo(tablePolicy))
		if !e.local() {
			flows = append(flows, at(tableSrcGroup, priorityExact, vrf, f.is(), f.src(openflow.Host(a))).
				do(regSrcGroup.set(uint32(e.Group))).goTo(tableDstGroup))
		}
	}
	return flows
}
