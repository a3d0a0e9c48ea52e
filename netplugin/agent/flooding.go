package agent

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// modeOf returns the mode of the cluster's networks. Routing ignores the ARP mode.
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

// wantedFloodSet returns the receivers of what a bridged network of this node floods. An endpoint is included
// as soon as it has a record; without a port, or on a host without a known VTEP, it receives nothing.
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
	for _, ep := range c.floodedTo(id) {
		s.Members = append(s.Members, c.endpoints[ep].part.MAC)
	}
	for host := range c.hostsIn[id] {
		if vtep, err := c.vtepOf(host); host != c.host && err == nil && n.Encap == pipeline.VXLAN {
			s.VTEPs = append(s.VTEPs, vtep)
		}
	}
	slices.SortFunc(s.Members, func(a, b [6]byte) int { return bytes.Compare(a[:], b[:]) })
	slices.SortFunc(s.VTEPs, netip.Addr.Compare)
	s.Members, s.VTEPs = slices.Compact(s.Members), slices.Compact(s.VTEPs)
	return s, nil
}

// floodedTo returns the endpoints of a bridged network on this node that receive flooded packets: the oldest,
// as many as the switch can flood to.
func (c *cache) floodedTo(network string) []string {
	var ids []string
	for id := range c.endpointsOn[c.host] {
		if e := c.endpoints[id]; e.netID == network && e.problem == "" {
			ids = append(ids, id)
		}
	}
	if len(ids) <= pipeline.MaxMembers {
		return ids
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(c.endpoints[a].since, c.endpoints[b].since), strings.Compare(a, b))
	})
	return ids[:pipeline.MaxMembers]
}

// roomToFlood returns an error if the switch cannot flood to a local endpoint of a bridged network because
// older ones have used up the limit.
func (c *cache) roomToFlood(epID string) error {
	network := c.endpoints[epID].netID
	if n := c.hostsIn[network][c.host]; !c.mode.Bridged() || n <= pipeline.MaxMembers || slices.Contains(c.floodedTo(network), epID) {
		return nil
	}
	return fault.New(fault.Exhausted, "endpoint %s: network %s is bridged and has %d endpoints on host %q already, all that can be reached by broadcast",
		epID, network, pipeline.MaxMembers, c.host)
}
