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

// Kubelet asks pods of its node at their addresses how they are. Those of the tenant in which the host has an interface
// it reaches by that (infra.go). Those of other tenants it reaches by the private addresses that the host knows endpoints of its
// node by, as host ports do: what the host itself sends to the pod's address is translated to that one.
//
// Who may make networks in a tenant chooses the addresses of its pods, and must not get what the host sends to others. So
// somebody who answers for the node has to say which addresses are those of a tenant's pods (Config.Probed), and those at which it
// has anything else to do are left out all the same. Of a service that has the address of such a pod as an external one, somebody
// in another tenant may have said that: the pod has what the host itself sends there.

// Pod is one of this node.
type Pod struct {
	Tenant    string
	Endpoint  string // its id
	Addresses []netip.Addr
}

// ProbedNetwork is where the host reaches the pods of a tenant.
type ProbedNetwork struct {
	Tenant  string
	Network netip.Prefix
}

// foreignPods are those of other tenants, at addresses that are nothing else's for the host.
type foreignPods struct {
	at      map[netip.Addr]foreignPod
	outside pipeline.Outside
}

type foreignPod struct {
	endpoint string
	probed   bool   // by kubelet, at this address
	number   uint32 // of its port in the switch
}

// mapPods leads from the addresses of pods to private ones. That of IPv6 has a 6 at the end.
const mapPods = "pods"

// foreignNow are those that are to be led to: what learnForeign finds, or, with why it does not, what it found last. A process for which
// it has never found anything has none, not even no pods: those to which the one before it has led are to be led to on.
func (m *Manager) foreignNow(access agent.HostAccess, closed Closed) (foreignPods, error) {
	pods, unreached, err := m.learnForeign(access, closed)
	if err == nil {
		m.foreign = pods
		m.TellUnreached(unreached)
		return pods, nil
	}
	pods = m.foreign
	pods.outside = *access.Outside
	return pods, err
}

// learnForeign finds them, and says of the others why the host does not reach them at the addresses at which kubelet probes them.
// Of several pods with one address it reaches none, as nothing tells which one is meant.
func (m *Manager) learnForeign(access agent.HostAccess, closed Closed) (found foreignPods, unreached []agent.UnreachedPod, err error) {
	s := foreignSearch{at: map[netip.Addr]foreignPod{}, others: map[netip.Addr]string{}}
	found = foreignPods{s.at, *access.Outside}
	if m.Pods == nil {
		return found, nil, nil
	}
	home := homeTenants(access)
	for _, p := range m.Pods() {
		if !slices.Contains(home, p.Tenant) {
			m.consider(&s, p, probedAt(p.Addresses, access.Primary))
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

// homeTenants are the tenants to whose networks the host has routes.
func homeTenants(access agent.HostAccess) (tenants []string) {
	for _, n := range access.Networks {
		if n.Network.NetworkName == mastercfg.AccessNetwork {
			tenants = append(tenants, n.Network.Tenant)
		}
	}
	return tenants
}

// foreignSearch is what learnForeign has found so far.
type foreignSearch struct {
	at        map[netip.Addr]foreignPod
	others    map[netip.Addr]string // why an address stands for something else than one pod, too
	unreached []agent.UnreachedPod
}

// consider adds the addresses of a pod of another tenant. Kubelet probes it at one of them.
func (m *Manager) consider(s *foreignSearch, p Pod, probed netip.Addr) {
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

// settle leaves the pods that alone have their address, and a port in the switch.
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

// probedAt is the address at which kubelet probes a pod: the first of the version of IP by which Kubernetes knows the node first.
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

// isProbed tells whether somebody has said that pods of a tenant are at an address.
func (m *Manager) isProbed(tenant string, a netip.Addr) bool {
	return slices.ContainsFunc(m.Probed, func(p ProbedNetwork) bool { return p.Tenant == tenant && p.Network.Contains(a) })
}

// addRouted adds the addresses of pods to which the host has another route than that by which all leaves that has none.
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

// addresses are theirs, ascending.
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

// chains translate what the host itself sends. From whatever address of its own, it comes from that on the link, which no rule judges.
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

// withForeignPods puts what leads to them into the table of a way out.
func (t table) withForeignPods(f foreignPods) table {
	if len(f.at) > 0 {
		t.sets, t.chains = slices.Concat(t.sets, f.sets()), slices.Concat(t.chains, f.chains())
	}
	return t
}
