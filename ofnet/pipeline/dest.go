package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// dest finds the receiver of a packet, by VRF and address, in one flow: its group for the policy, its network and
// MAC for forwarding, and the output, which is a port or the tunnel to its node. There is one tunnel port; a packet
// for a remote endpoint gets the VNI of its network and the tunnel address of its node, so peers are not ports.
//
// Whether the packet may go there is not decided here. A packet without a receiver continues, too, so that the
// policy is applied to it and counts it.
type dest struct{ others uint32 }

func (d dest) endpoint(w *Wants, e placed) {
	if e.Mode.Bridged() {
		return
	}
	for _, a := range e.addresses() {
		f := familyOf(a)
		if e.behindRouter() {
			d.group(w, e, f, a)
			continue
		}
		w.flow(at(tableDest, priorityExact, f.is(), regVRF.is(uint32(e.VRF)), f.dst(inet.Host(a))).
			do(toReceiver(e, d.others)...).goTo(tablePolicy))
	}
}

// group sets the group of a receiver that is reached by a route (router.go).
func (dest) group(w *Wants, e placed, f family, a netip.Addr) {
	if e.Group != 0 || e.Class != 0 {
		w.flow(at(tableDest, priorityExact, f.is(), regVRF.is(uint32(e.VRF)), f.dst(inet.Host(a))).
			do(e.asReceiver()...).goTo(tablePolicy))
	}
}

// asReceiver sets the receiver's group and class for rules and tiers.
func (e placed) asReceiver() (actions []openflow.Action) {
	if e.Group != 0 {
		actions = append(actions, regDstGroup.set(uint32(e.Group)))
	}
	return append(actions, e.classed(regDstClass, regDstTiers)...)
}

// toReceiver sets the receiver of a packet, and the output: the endpoint's port, or that to other nodes.
func toReceiver(e placed, others uint32) []openflow.Action {
	actions := append([]openflow.Action{regDstNet.set(uint32(e.Tag)), keepMAC(e.MAC)}, e.asReceiver()...)
	switch {
	case e.local():
		return append(actions, regOut.set(e.port))
	case e.Encap == VLAN:
		return append(actions, regOut.set(others))
	}
	return append(actions,
		set(openflow.TunnelID(uint64(e.VNI))), set(openflow.TunDst(inet.Host(e.VTEP))), regOut.set(others))
}
