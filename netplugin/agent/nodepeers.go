package agent

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
)

// nodesAmong are the addresses that other nodes have in infra networks of the subjects' tenants, where a rule is about
// these nodes: a policy knows only the addresses of Kubernetes. Processes of nodes reach pods with them: a rule that
// lets in what comes from networks is about nodes whose InternalIPs are in these. Pods reach nodes there, too: a rule
// about what goes out is about nodes that it names, each by its address alone, as those of ClusterNetworkPolicies do;
// networks say where pods may go, and not to whom. Nets that hold these addresses anyway are not told again, and none
// that the policy has taken out of its networks.
func (c *cache) nodesAmong(rule pipeline.TierRule) (more []netip.Prefix) {
	if !c.mayBeAboutNodes(rule.ID) {
		return nil
	}
	named := holder(rule.Nets)
	isPeer := named
	if rule.Out {
		isPeer = holder(slices.DeleteFunc(slices.Clone(rule.Nets), func(p netip.Prefix) bool { return !p.IsSingleIP() }))
	}
	access := c.accessTo(rule.Subjects)
	for host, node := range c.kube.nodes {
		peers := slices.DeleteFunc(slices.Clone(node.Addresses), func(a netip.Addr) bool { return !isPeer(a) })
		if host == c.host || len(peers) == 0 {
			continue
		}
		for _, own := range c.infraAddresses(host, access) {
			isOwnOf := func(known netip.Addr) bool {
				return own.Is4() == known.Is4() && !isTakenOut(c.nodePeers[rule.ID], known, own)
			}
			if !named(own) && slices.ContainsFunc(peers, isOwnOf) {
				more = append(more, inet.Host(own))
			}
		}
	}
	slices.SortFunc(more, netip.Prefix.Compare)
	return slices.Compact(more)
}

// infraAddresses are the addresses that a host has in infra networks, but for those that may be another's in another tenant.
func (c *cache) infraAddresses(host string, networks []access) (own []netip.Addr) {
	for _, network := range networks {
		e := c.endpoints[mastercfg.EndpointID(network.id, host)]
		if e.host != host || e.netID != network.id { // names hold dots
			continue
		}
		for _, a := range []netip.Addr{e.part.IPv4, e.part.IPv6} {
			if a.IsValid() && !network.elsewhere(a) {
				own = append(own, a)
			}
		}
	}
	return own
}

// taken is what was taken out of a network.
type taken struct {
	net    netip.Prefix
	except []netip.Prefix
}

func takenOut(all []mastercfg.TierExcept) (list []taken, err error) {
	for _, wire := range all {
		var x taken
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

// isTakenOut tells whether each of the networks that name a node by one address leaves another one of it out.
func isTakenOut(list []taken, known, own netip.Addr) bool {
	names := func(x taken) bool { return x.net.Contains(known) && !x.excepts(known) }
	return slices.ContainsFunc(list, names) && !slices.ContainsFunc(list, func(x taken) bool { return names(x) && !x.excepts(own) })
}

func (x taken) excepts(a netip.Addr) bool {
	return slices.ContainsFunc(x.except, func(p netip.Prefix) bool { return p.Contains(a) })
}

// isOfHost tells whether an endpoint with this id is that of its host itself in a network.
func (e endpoint) isOfHost(id string) bool { return id == mastercfg.EndpointID(e.netID, e.host) }

// access is an infra network by which processes of nodes reach endpoints.
type access struct {
	id     string
	others []netip.Prefix // subnets of other tenants, whose endpoints here the rule is about, too
}

// elsewhere tells whether an address may be another's in another tenant.
func (a access) elsewhere(addr netip.Addr) bool {
	return slices.ContainsFunc(a.others, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// accessTo lists the infra networks of the tenants of which endpoints of these classes are here.
func (c *cache) accessTo(classes []uint16) (networks []access) {
	tenants := map[string]struct{}{}
	for id, class := range c.classOf {
		if slices.Contains(classes, class) {
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

// mayBeAboutNodes tells whether it depends on nodes who the peers of a rule are.
func (t *tiers) mayBeAboutNodes(rule string) bool {
	_, may := t.nodePeers[rule]
	return may
}

// nodePeersChange has the rules looked at of which nodes may be peers.
func (c *cache) nodePeersChange() {
	for rule := range c.nodePeers {
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
