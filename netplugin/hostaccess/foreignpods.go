package hostaccess

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
)

// Kubelet probes the pods of its node at their addresses. It reaches pods of the tenant of the host's access
// network through that network (infra.go), and pods of other tenants through their private addresses, as host
// ports do: the destination of packets from the host itself to a pod's address is translated to the pod's private
// one.
//
// A user who can create networks in a tenant chooses the addresses of its pods, and must not receive packets of
// the host that are for other destinations. So the operator of the node has to configure the addresses of a
// tenant's pods (Containers.Probed), and addresses with any other use are excluded nevertheless. If a service,
// possibly of another tenant, has the address of such a pod as an external one, the pod receives the packets of
// the host.

// Pod is a pod of this node.
type Pod struct {
	Tenant    string
	Endpoint  string // its id
	Addresses []netip.Addr
}

// ProbedNetwork is a prefix in which the host reaches the pods of a tenant.
type ProbedNetwork struct {
	Tenant  string
	Network netip.Prefix
}

// foreignPods are the pods of other tenants that the host reaches, by address.
type foreignPods struct {
	at      map[netip.Addr]foreignPod
	outside pipeline.Outside
}

type foreignPod struct {
	endpoint string
	probed   bool   // by kubelet, at this address
	number   uint32 // of its port in the switch
}

// mapPods is the map from addresses of pods to private addresses. That of IPv6 has a 6 at the end.
const mapPods = "pods"

// presentForeign returns the result of findForeign, or its last result together with the error. Until it has
// succeeded once in this process the map is nil, and the rules of an earlier process are retained.
func (m *Manager) presentForeign(access agent.HostAccess, closed Closed) (foreignPods, error) {
	pods, unreached, err := m.findForeign(access, closed)
	if err == nil {
		m.foreign = pods
		m.Reports.TellUnreached(unreached)
		return pods, nil
	}
	pods = m.foreign
	pods.outside = *access.Outside
	return pods, err
}

// findForeign returns the pods of other tenants that the host can reach and, with the reasons, those that it
// cannot reach at the address that kubelet probes. If several pods have the same address it reaches none of them.
func (m *Manager) findForeign(access agent.HostAccess, closed Closed) (found foreignPods, unreached []agent.UnreachedPod, err error) {
	s := foreignSearch{at: map[netip.Addr]foreignPod{}, others: map[netip.Addr]string{}}
	found = foreignPods{s.at, *access.Outside}
	if m.Pods == nil {
		return found, nil, nil
	}
	home := homeTenants(access)
	for _, p := range m.Pods() {
		if !slices.Contains(home, p.Tenant) {
			m.addForeignPod(&s, p, probedAt(p.Addresses, access.Primary))
		}
	}
	if len(s.at) == 0 {
		return found, s.unreached, nil
	}
	numbers, err := m.Numbers()
	if err != nil {
		return found, nil, err
	}
	for _, a := range slices.Concat(access.Nodes, closed.Nodes) {
		s.others[a] = "a machine of the cluster has it, too"
	}
	if err := addRouted(s.others, s.at); err != nil {
		return found, nil, err
	}
	s.settle(numbers)
	return found, s.unreached, nil
}

// homeTenants returns the tenants of the host's access networks.
func homeTenants(access agent.HostAccess) (tenants []string) {
	for _, n := range access.Networks {
		if n.Network.NetworkName == mastercfg.AccessNetwork {
			tenants = append(tenants, n.Network.Tenant)
		}
	}
	return tenants
}

// foreignSearch is the intermediate state of findForeign.
type foreignSearch struct {
	at        map[netip.Addr]foreignPod
	others    map[netip.Addr]string // addresses that do not identify one pod, and why
	unreached []agent.UnreachedPod
}

// addForeignPod adds the addresses of a pod of another tenant; probed is the one that kubelet probes.
func (m *Manager) addForeignPod(s *foreignSearch, p Pod, probed netip.Addr) {
	for _, a := range p.Addresses {
		if !m.isProbed(p.Tenant, a) {
			if a == probed {
				s.unreached = append(s.unreached, agent.UnreachedPod{Endpoint: p.Endpoint, At: a, Unnamed: true,
					Why: fmt.Sprintf("it is of tenant %s, and netplugin's --probed-networks does not name its network", p.Tenant)})
			}
			continue
		}
		first, twice := s.at[a]
		if !twice {
			s.at[a] = foreignPod{endpoint: p.Endpoint, probed: a == probed}
			continue
		}
		s.others[a] = "so has " + first.endpoint
		if a == probed {
			s.unreached = append(s.unreached, agent.UnreachedPod{Endpoint: p.Endpoint, At: a, Why: s.others[a]})
		}
	}
}

// settle retains the pods with an address of their own and a port in the switch.
func (s *foreignSearch) settle(numbers map[string]uint32) {
	for a, p := range s.at {
		why, other := s.others[a]
		if other && p.probed {
			s.unreached = append(s.unreached, agent.UnreachedPod{Endpoint: p.endpoint, At: a, Why: why})
		}
		if p.number = numbers[p.endpoint]; other || p.number == 0 {
			delete(s.at, a)
			continue
		}
		s.at[a] = p
	}
}

// probedAt returns the address at which kubelet probes a pod: the first of the IP family of the node's first
// address in Kubernetes.
func probedAt(addresses, node []netip.Addr) netip.Addr {
	for _, a := range addresses {
		if len(node) > 0 && a.Is4() == node[0].Is4() {
			return a
		}
	}
	if len(addresses) == 0 {
		return netip.Addr{}
	}
	return addresses[0]
}

// isProbed reports whether an address is configured as one of a tenant's pods.
func (m *Manager) isProbed(tenant string, a netip.Addr) bool {
	return slices.ContainsFunc(m.Probed, func(p ProbedNetwork) bool { return p.Tenant == tenant && p.Network.Contains(a) })
}

// addRouted adds the addresses of pods to which the host has a route other than a default route.
func addRouted(others map[netip.Addr]string, pods map[netip.Addr]foreignPod) error {
	names, err := linkNames()
	if err != nil {
		return err
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		anyTable := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
		err := netlink.RouteListFilteredIter(family, anyTable, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
			if names[r.LinkIndex] == outsideLink {
				return true
			}
			for a := range pods {
				if uses(r, inet.Host(a)) {
					others[a] = fmt.Sprintf("the host has a route to %s by %s", inet.PrefixOf(r.Dst), names[r.LinkIndex])
				}
			}
			return true
		})
		if err != nil {
			return fmt.Errorf("routes of the host: %w", err)
		}
	}
	return nil
}

// addresses returns the pods' addresses, ascending.
func (f foreignPods) addresses() (all []netip.Addr) {
	for a := range f.at {
		all = append(all, a)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

func (f foreignPods) sets() (all []set) {
	for _, p := range f.outside.Prefixes() {
		pods := set{name: mapPods + suffix(p), kind: addressKind(p), leadsTo: addressKind(p)}
		for _, a := range f.addresses() {
			if a.Is4() == p.Addr().Is4() {
				pods.elements = append(pods.elements, a.String())
				pods.values = append(pods.values, pipeline.OutsideAddress(p, f.at[a].number).String())
			}
		}
		all = append(all, pods)
	}
	return all
}

// chains translate packets of the host itself. Their source becomes the host's address on the link, which is
// exempt from policies.
func (f foreignPods) chains() []chain {
	var lead, hide []rule
	for _, p := range f.outside.Prefixes() {
		ip := version(p)
		lead = append(lead, rule{knftables.Concat("dnat", ip, "to", ip, "daddr map @"+mapPods+suffix(p)), "pods of other tenants"})
		hide = append(hide, rule{knftables.Concat("oifname", quoted(outsideLink), "ct status dnat", ip, "daddr", p, ip, "daddr !=", pipeline.AllStandIns(p),
			"fib saddr type local", "snat", ip, "to", pipeline.OutsideAddress(p, pipeline.OutsideHost)), "the host to pods of other tenants"})
	}
	return []chain{
		{"pods-here", knftables.NATType, knftables.OutputHook, leadPriority, lead},
		{"pods-hide", knftables.NATType, knftables.PostroutingHook, hidePriority, hide},
	}
}

// withForeignPods adds the sets and chains of foreign pods to the table of a way out.
func (t table) withForeignPods(f foreignPods) table {
	if len(f.at) > 0 {
		t.sets, t.chains = slices.Concat(t.sets, f.sets()), slices.Concat(t.chains, f.chains())
	}
	return t
}
