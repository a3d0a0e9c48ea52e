package agent

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// modeOf is how networks forward, by the cluster's configuration. Routing has
// no use for an ARP mode.
func modeOf(g mastercfg.GlobConfig) (pipeline.Mode, error) {
	switch {
	case g.FwdMode == "routing":
		return pipeline.Routed, nil
	case g.FwdMode == "bridge" && g.ArpMode == "flood":
		return pipeline.BridgedFlood, nil
	case g.FwdMode == "bridge":
		return pipeline.BridgedProxy, nil
	}
	return pipeline.Routed, fault.New(fault.Mode, "forwarding mode %q of the cluster is not served by this agent", g.FwdMode)
}

// wantedFloodSet is who gets what a bridged network of this node floods. An
// endpoint counts from its record on; one without a port yet, or on a host
// without a known VTEP, gets nothing. Those beyond what a switch can flood to
// are left out, rather than all of them; they are not attached (roomToFlood).
func (c *cache) wantedFloodSet(id string) (pipeline.Object, error) {
	o, err := c.wantedNetwork(id)
	if err != nil {
		return nil, err
	}
	n := o.(pipeline.Network)
	if !n.Mode.Bridged() {
		return nil, fault.New(fault.NotFound, "network %s is not bridged", id)
	}
	s := pipeline.FloodSet{Network: id, Encap: n.Encap, VNI: n.VNI, Tag: n.Tag}
	for ep := range c.endpointsOn[c.host] {
		if e := c.endpoints[ep]; e.netID == id && e.problem == "" {
			s.Members = append(s.Members, e.part.MAC)
		}
	}
	for host := range c.hostsIn[id] {
		if vtep := c.peers.vtep[host]; host != c.host && vtep.IsValid() && n.Encap == pipeline.VXLAN {
			s.VTEPs = append(s.VTEPs, vtep)
		}
	}
	slices.SortFunc(s.Members, func(a, b [6]byte) int { return bytes.Compare(a[:], b[:]) })
	slices.SortFunc(s.VTEPs, netip.Addr.Compare)
	s.Members, s.VTEPs = slices.Compact(s.Members), slices.Compact(s.VTEPs)
	s.Members = s.Members[:min(len(s.Members), pipeline.MaxMembers)]
	return s, nil
}

// roomToFlood says why a bridged network has more endpoints on this node than
// its switch can flood to; nil if it has not.
func (c *cache) roomToFlood(network string) error {
	if n := c.hostsIn[network][c.host]; c.mode.Bridged() && n > pipeline.MaxMembers {
		return fault.New(fault.Exhausted, "network %s is bridged and has %d endpoints on host %q, at most %d can be reached by broadcast",
			network, n, c.host, pipeline.MaxMembers)
	}
	return nil
}
