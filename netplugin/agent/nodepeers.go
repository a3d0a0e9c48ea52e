package agent

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
)

// infraAddressesOfNodes returns the addresses to add to the peers of a rule about nodes: those that other nodes
// have in infra networks of the subjects' tenants. A policy names only the nodes' addresses in Kubernetes, but
// their processes send to pods from these.
//
// A rule for ingress is about the nodes whose InternalIPs are in its networks. A rule for egress is about the
// nodes that it names by single addresses, as ClusterNetworkPolicies do; larger networks are destinations, not
// nodes. Addresses that the rule's networks contain already are left out, and those that the policy excepts.
func (c *cache) infraAddressesOfNodes(rule pipeline.TierRule) (more []netip.Prefix) {
	if !c.tiers.mayBeAboutNodes(rule.ID) {
		return nil
	}
	named := holder(rule.Nets)
	isPeer := named
	if rule.Out {
		isPeer = holder(slices.DeleteFunc(slices.Clone(rule.Nets), func(p netip.Prefix) bool { return !p.IsSingleIP() }))
	}
	access := c.infraNetworksOf(rule.Subjects)
	for host, node := range c.kube.nodes {
		peers := slices.DeleteFunc(slices.Clone(node.Addresses), func(a netip.Addr) bool { return !isPeer(a) })
		if host == c.host || len(peers) == 0 {
			continue
		}
		for _, own := range c.infraAddresses(host, access) {
			isOwnOf := func(known netip.Addr) bool {
				return own.Is4() == known.Is4() && !isExcepted(c.tiers.nodePeers[rule.ID], known, own)
			}
			if !named(own) && slices.ContainsFunc(peers, isOwnOf) {
				more = append(more, inet.Host(own))
			}
		}
	}
	slices.SortFunc(more, netip.Prefix.Compare)
	return slices.Compact(more)
}

// infraAddresses returns the addresses of a host in infra networks,
// except those that may belong to another endpoint in another tenant.
func (c *cache) infraAddresses(host string, networks []access) (own []netip.Addr) {
	for _, network := range networks {
		e := c.endpoints[mastercfg.EndpointID(network.id, host)]
		if e.host != host || e.netID != network.id { // other names may join to the same id
			continue
		}
		for _, a := range []netip.Addr{e.part.IPv4, e.part.IPv6} {
			if a.IsValid() && !network.mayBeOfOtherTenant(a) {
				own = append(own, a)
			}
		}
	}
	return own
}

// except is what a policy excepts from a network.
type except struct {
	net    netip.Prefix
	except []netip.Prefix
}

func parseExcepts(all []mastercfg.TierExcept) (list []except, err error) {
	for _, wire := range all {
		var x except
		if x.net, err = netip.ParsePrefix(wire.Net); err != nil {
			return nil, err
		}
		if x.except, err = prefixes(wire.Except); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// isExcepted reports whether each of the networks that contain the node's known address excepts its own address.
func isExcepted(list []except, known, own netip.Addr) bool {
	names := func(x except) bool { return x.net.Contains(known) && !x.excepts(known) }
	return slices.ContainsFunc(list, names) && !slices.ContainsFunc(list, func(x except) bool { return names(x) && !x.excepts(own) })
}

func (x except) excepts(a netip.Addr) bool {
	return slices.ContainsFunc(x.except, func(p netip.Prefix) bool { return p.Contains(a) })
}

// isOfHost reports whether an endpoint with this id is the host's own in a network.
func (e endpoint) isOfHost(id string) bool { return id == mastercfg.EndpointID(e.netID, e.host) }

// access is an infra network through which processes of nodes reach endpoints.
type access struct {
	id     string
	others []netip.Prefix // subnets of other tenants that also have subjects of the rule on this node
}

// mayBeOfOtherTenant reports whether an address may belong to another endpoint in another tenant.
func (a access) mayBeOfOtherTenant(addr netip.Addr) bool {
	return slices.ContainsFunc(a.others, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// infraNetworksOf lists the infra networks of the tenants that have endpoints of these classes on this node.
func (c *cache) infraNetworksOf(classes []uint16) (networks []access) {
	tenants := map[string]struct{}{}
	for _, class := range classes {
		for id := range c.tiers.here.held[class] {
			tenants[c.networks[c.endpoints[id].netID].record.Tenant] = struct{}{}
		}
	}
	subnets := map[string][]netip.Prefix{}
	for tenant := range tenants {
		for id := range c.networksOf[tenant] {
			subnets[tenant] = append(subnets[tenant], c.networks[id].part.Subnet, c.networks[id].part.Subnet6)
		}
	}
	for tenant := range tenants {
		var others []netip.Prefix
		for other, its := range subnets {
			if other != tenant {
				others = append(others, its...)
			}
		}
		for id := range c.networksOf[tenant] {
			if c.networks[id].record.NwType == infraNetwork {
				networks = append(networks, access{id, others})
			}
		}
	}
	return networks
}

// mayBeAboutNodes reports whether the peers of a rule may depend on the registered nodes.
func (t *tiers) mayBeAboutNodes(rule string) bool {
	_, may := t.nodePeers[rule]
	return may
}

// nodePeersChange marks the rules that may have nodes as peers.
func (c *cache) nodePeersChange() {
	for rule := range c.tiers.nodePeers {
		c.mark(pipeline.KindTierRule, rule)
	}
}

// holder returns a function that reports whether any of the
// masked networks, which may be thousands, contains an address.
func holder(nets []netip.Prefix) func(netip.Addr) bool {
	all, lengths := make(map[netip.Prefix]struct{}, len(nets)), map[int]struct{}{}
	for _, n := range nets {
		all[n], lengths[n.Bits()] = struct{}{}, struct{}{}
	}
	return func(addr netip.Addr) bool {
		for bits := range lengths {
			if net, err := addr.Prefix(bits); err == nil { // otherwise the prefix is too long for this IP family
				if _, holds := all[net]; holds {
					return true
				}
			}
		}
		return false
	}
}
