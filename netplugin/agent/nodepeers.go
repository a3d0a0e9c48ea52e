package agent

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// nodesAmong are the addresses with which processes of other nodes reach the subjects of a rule that lets in what
// comes from the InternalIPs of these nodes. They come with the address that their node has in an infra network of the
// tenant, and a policy knows only those of Kubernetes. Nets that hold these addresses anyway are not told again, and none that the
// policy has taken out of its networks.
func (c *cache) nodesAmong(rule pipeline.TierRule) (more []netip.Prefix) {
	if !c.comesFromNets(rule.ID) {
		return nil
	}
	named, excepted, access := holder(rule.Nets), holder(c.fromNets[rule.ID]), c.accessTo(rule.Subjects)
	for host, node := range c.kube.nodes {
		for _, known := range node.Addresses {
			if host == c.host || !named(known) {
				continue
			}
			for _, network := range access {
				e := c.endpoints[mastercfg.EndpointID(network, host)]
				if e.host != host || e.netID != network { // names hold dots
					continue
				}
				for _, own := range []netip.Addr{e.part.IPv4, e.part.IPv6} {
					if own.IsValid() && own.Is4() == known.Is4() && !named(own) && !excepted(own) {
						more = append(more, netip.PrefixFrom(own, own.BitLen()))
					}
				}
			}
		}
	}
	slices.SortFunc(more, netip.Prefix.Compare)
	return slices.Compact(more)
}

// isOfHost tells whether an endpoint with this id is that of its host itself in a network.
func (e endpoint) isOfHost(id string) bool { return id == mastercfg.EndpointID(e.netID, e.host) }

// accessTo lists the infra networks of the tenant of which all endpoints of these classes are that are here. If they are of several,
// there are none: an address is another's in another tenant.
func (c *cache) accessTo(classes []uint16) (networks []string) {
	tenant := ""
	for id, class := range c.classOf {
		if !slices.Contains(classes, class) {
			continue
		}
		of := c.networks[c.endpoints[id].netID].record.Tenant
		if tenant != "" && tenant != of {
			return nil
		}
		tenant = of
	}
	for id := range c.networksOf[tenant] {
		if c.networks[id].record.NwType == infraNetwork {
			networks = append(networks, id)
		}
	}
	return networks
}

// comesFromNets tells whether a rule is about what comes in from networks.
func (t *tiers) comesFromNets(rule string) bool {
	_, does := t.fromNets[rule]
	return does
}

// nodePeersChange has the rules looked at of which nodes may be peers.
func (c *cache) nodePeersChange() {
	for rule := range c.fromNets {
		c.mark(pipeline.KindTierRule, rule)
	}
}

// holder tells whether one of some networks, which are masked, holds an address. They may be thousands.
func holder(nets []netip.Prefix) func(netip.Addr) bool {
	all, lengths := make(map[netip.Prefix]struct{}, len(nets)), map[int]struct{}{}
	for _, n := range nets {
		all[n], lengths[n.Bits()] = struct{}{}, struct{}{}
	}
	return func(addr netip.Addr) bool {
		for bits := range lengths {
			if net, err := addr.Prefix(bits); err == nil { // else it is too long for this version of IP
				if _, holds := all[net]; holds {
					return true
				}
			}
		}
		return false
	}
}
