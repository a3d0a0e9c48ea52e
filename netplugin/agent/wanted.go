package agent

import (
	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/utils/fault"
)

// wanted computes a datapath object from the cache. A NotFound error says that
// it has no place on this node; any other error that it is pending and why.
func (c *cache) wanted(key drivers.Key) (drivers.Object, error) {
	switch key.Kind {
	case drivers.KindNetwork:
		return c.wantedNetwork(key.ID)
	case drivers.KindEndpoint:
		return c.wantedEndpoint(key.ID)
	case drivers.KindRule:
		return c.wantedRule(key.ID)
	}
	return nil, fault.New(fault.Internal, "object %s: unknown kind %q", key.ID, key.Kind)
}

func (c *cache) wantedNetwork(id string) (drivers.Object, error) {
	if _, known := c.networks[id]; !known {
		return nil, fault.New(fault.NotFound, "network %s is not known", id)
	}
	n, err := c.servedNetwork(id)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// servedNetwork is a network of a tenant that is present on this node.
func (c *cache) servedNetwork(id string) (drivers.Network, error) {
	n, known := c.networks[id]
	switch {
	case !known:
		return drivers.Network{}, fault.New(fault.MissingReference, "network %s is not known", id)
	case c.localsOf[n.record.Tenant] == 0:
		return drivers.Network{}, fault.New(fault.NotFound, "tenant %s has no endpoint on this node", n.record.Tenant)
	case n.problem != "":
		return drivers.Network{}, fault.New(fault.Unsupported, "network %s: %s", id, n.problem)
	case c.vrfs[n.record.Tenant] == 0:
		return drivers.Network{}, fault.New(fault.MissingReference, "tenant %s has no VRF number", n.record.Tenant)
	}
	n.part.VRF = c.vrfs[n.record.Tenant]
	return n.part, nil
}

func (c *cache) wantedEndpoint(id string) (drivers.Object, error) {
	record, known := c.endpoints[id]
	if !known {
		return nil, fault.New(fault.NotFound, "endpoint %s is not known", id)
	}
	n, err := c.servedNetwork(record.record.NetID)
	if err != nil {
		return nil, err
	}
	if record.problem != "" {
		return nil, fault.New(fault.Invalid, "endpoint %s: %s", id, record.problem)
	}
	e := record.part
	e.Tenant, e.VRF, e.VNI, e.Tag = n.Tenant, n.VRF, n.VNI, n.Tag
	if e.Local = record.host == c.host; e.Local {
		return e, nil
	}
	if e.VTEP = c.peers.vtep[record.host]; !e.VTEP.IsValid() {
		return nil, fault.New(fault.MissingReference, "host %q has no known VTEP", record.host)
	}
	return e, nil
}

func (c *cache) wantedRule(id string) (drivers.Object, error) {
	r, known := c.rules[id]
	switch {
	case !known:
		return nil, fault.New(fault.NotFound, "rule %s is not known", id)
	case c.localsOf[r.tenant] == 0:
		return nil, fault.New(fault.NotFound, "tenant %s has no endpoint on this node", r.tenant)
	}
	return r.part, nil
}
