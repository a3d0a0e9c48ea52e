package agent

import (
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// wanted computes a datapath object from the cache. A NotFound error means that the object is not wanted on
// this node; any other error is the reason why it is pending.
func (c *cache) wanted(key pipeline.Key) (pipeline.Object, error) {
	switch key.Kind {
	case pipeline.KindNetwork:
		return c.wantedNetwork(key.ID)
	case pipeline.KindEndpoint:
		return c.wantedEndpoint(key.ID)
	case pipeline.KindFloodSet:
		return c.wantedFloodSet(key.ID)
	case pipeline.KindService:
		return c.wantedService(key.ID)
	case pipeline.KindOutside:
		return c.wantedOutside()
	case pipeline.KindRule:
		return c.wantedRule(key.ID)
	case pipeline.KindTierRule:
		return c.wantedTierRule(key.ID)
	case pipeline.KindEpoch:
		return c.wantedEpoch()
	case pipeline.KindPeer:
		return c.nodes.wantedPeer(key.ID)
	}
	return nil, fault.New(fault.Internal, "object %s: unknown kind %q", key.ID, key.Kind)
}

func (c *cache) wantedNetwork(id string) (pipeline.Object, error) {
	if _, known := c.networks[id]; !known {
		return nil, fault.New(fault.NotFound, "network %s is not known", id)
	}
	n, err := c.servedNetwork(id)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// servedNetwork returns a network that is present on this node.
func (c *cache) servedNetwork(id string) (pipeline.Network, error) {
	n, known := c.networks[id]
	switch {
	case !known:
		return pipeline.Network{}, fault.New(fault.MissingReference, "network %s is not known", id)
	case !c.presentIn(n):
		return pipeline.Network{}, fault.New(fault.NotFound, "tenant %s has no endpoint on this node", n.record.Tenant)
	case n.problem != "":
		return pipeline.Network{}, fault.New(fault.Unsupported, "network %s: %s", id, n.problem)
	case c.vrfs[n.record.Tenant] == 0:
		return pipeline.Network{}, fault.New(fault.MissingReference, "tenant %s has no VRF number", n.record.Tenant)
	}
	n.part.VRF, n.part.Mode = c.vrfs[n.record.Tenant], c.mode
	if routedVLAN(n.part) {
		n.part.VRF = pipeline.SharedVRF // external routers see addresses, not tenants
	}
	return n.part, nil
}

func (c *cache) wantedEndpoint(id string) (pipeline.Object, error) {
	record, known := c.endpoints[id]
	if !known {
		return nil, fault.New(fault.NotFound, "endpoint %s is not known", id)
	}
	n, err := c.servedNetwork(record.netID)
	if err != nil {
		return nil, err
	}
	if record.problem != "" {
		return nil, fault.New(fault.Invalid, "endpoint %s: %s", id, record.problem)
	}
	e := record.part
	e.Tenant, e.Mode, e.Encap, e.VRF, e.VNI, e.Tag = n.Tenant, n.Mode, n.Encap, n.VRF, n.VNI, n.Tag
	e.Class, e.Tiers = c.tiers.tiersOf(record)
	if e.Local = record.host == c.host; e.Local {
		e.Host = id == mastercfg.EndpointID(record.netID, c.host)
		e.Limits = c.limitsOf(record)
		if o, err := c.hostPort(); err == nil && !e.Mode.Bridged() && e.Encap == pipeline.VXLAN {
			e.Private = o.Prefix
		}
		return e, nil
	}
	if n.Encap == pipeline.VLAN {
		if routedVLAN(n) {
			e.VTEP = c.routers.addresses[record.host]
		}
		return e, nil // whichever its node, it is behind the uplink
	}
	if e.VTEP, err = c.vtepOf(record.host); err != nil {
		return nil, err
	}
	return e, nil
}

// vtepOf returns the tunnel address of a host.
func (c *cache) vtepOf(host string) (netip.Addr, error) {
	vtep := c.peers.vtep[host]
	if !vtep.IsValid() {
		return vtep, fault.New(fault.MissingReference, "host %q has no known VTEP", host)
	}
	if c.vtep.IsValid() && c.vtep.Is4() != vtep.Is4() {
		return netip.Addr{}, fault.New(fault.Unsupported, "host %q has tunnel address %s, which %s, of the other version of IP, cannot reach", host, vtep, c.vtep)
	}
	return vtep, nil
}

func (c *cache) wantedRule(id string) (pipeline.Object, error) {
	r, known := c.rules[id]
	switch {
	case !known:
		return nil, fault.New(fault.NotFound, "rule %s is not known", id)
	case !c.knowsRulesOf(r.tenant):
		return nil, fault.New(fault.NotFound, "tenant %s has no endpoint on this node", r.tenant)
	}
	if _, final := c.final[r.tenant]; final {
		r.part.Ends = r.ends
	}
	return r.part, nil
}
