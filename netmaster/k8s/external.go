package k8s

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// A user who may create a service may write any externalIPs; the API server does not check them. Every node routes
// an external address to its switch, which would cut off a machine that has this address. So addresses that belong
// to others are left out, with an event. If a load balancer assigns the address of a node, only the ports of the
// service are served there, and the address is not routed to the switch.

// maxExternal is how many addresses in externalIPs of a service are served, and as many of load balancers:
// each has a route and flows on every node.
const maxExternal = 32

// maxLooked is how many addresses of each list are read at all: an object has room for a hundred thousand.
const maxLooked = 4 * maxExternal

// addressIndex finds the services with an address, be it ClusterIP, external or of a load balancer.
const addressIndex = "address"

func addressesOfService(object any) (texts []string, err error) {
	service, _ := object.(*corev1.Service)
	record, _ := serviceRecord(service)
	for _, list := range [][]netip.Addr{record.Addresses, record.External, record.LoadBalancers} {
		for _, a := range list {
			texts = append(texts, a.String())
		}
	}
	return texts, nil
}

// recordOf returns the record of a service, without externalIPs if the operator does not permit these.
func (b *balancer) recordOf(s *corev1.Service) (record mastercfg.K8sService, served bool) {
	if record, served = serviceRecord(s); b.cfg.NoExternalIPs {
		record.External = nil
	}
	return record, served
}

// disabledAddresses names external addresses of a service that the operator's configuration does not permit;
// empty: none.
func (b *balancer) disabledAddresses(s *corev1.Service) string {
	all := addresses(s.Spec.ExternalIPs[:min(len(s.Spec.ExternalIPs), maxLooked)])
	if !b.cfg.NoExternalIPs || len(all) == 0 {
		return ""
	}
	which := all[0].String() + " leads"
	if more := len(all) - 1; more > 0 {
		which = fmt.Sprintf("%s and %d more lead", all[0], more)
	}
	return fmt.Sprintf("externalIPs are switched off in this cluster, and %s nowhere: use a service of type LoadBalancer, or node ports; "+
		"an operator can allow them (netmaster --k8s-external-ips)", which)
}

// excessAddresses returns the problems of a service with more external addresses than the limit.
func (b *balancer) excessAddresses(s *corev1.Service) (texts []string) {
	for what, n := range map[string]int{"externalIPs": len(s.Spec.ExternalIPs), "addresses of load balancers": len(s.Status.LoadBalancer.Ingress)} {
		if n > maxLooked && !(b.cfg.NoExternalIPs && what == "externalIPs") {
			texts = append(texts, fmt.Sprintf("%d of %d %s are not looked at: at most %d are served; use several services", n-maxLooked, n, what, maxExternal))
		}
	}
	return texts
}

// externalAgain is how often a service with external addresses is reconciled: a network
// or a node may have one of them by then.
const externalAgain = time.Minute

// neverExternal are ranges whose addresses are local to a machine or link, or are no host's.
var neverExternal = []claim{
	{"range", netip.MustParsePrefix("0.0.0.0/8")}, {"loopback range", netip.MustParsePrefix("127.0.0.0/8")},
	{"link-local range", netip.MustParsePrefix("169.254.0.0/16")}, {"range", netip.MustParsePrefix("224.0.0.0/3")},
	{"range", netip.MustParsePrefix("::/96")}, {"link-local range", netip.MustParsePrefix("fe80::/10")},
	{"multicast range", netip.MustParsePrefix("ff00::/8")}, {"range of the switch", pipeline.OutsidePrefix6()},
	{"range of the switch", pipeline.NamesPrefixes()[1]},
}

// admit removes the external addresses that a service may not have from its record, and returns the reasons. tenants
// are those in which it is served.
func (b *balancer) admit(r ledger.Reader, record *mastercfg.K8sService, tenants []string) (refused []string, err error) {
	if len(record.External)+len(record.LoadBalancers) == 0 {
		return nil, nil
	}
	taken, err := b.reservedAddresses(r, tenants)
	if err != nil {
		return nil, err
	}
	nodes, err := nodeClaims(b.nodes)
	if err != nil {
		return nil, err
	}
	for rank, list := range []*[]netip.Addr{byBalancer: &record.LoadBalancers, bySpec: &record.External} {
		own, others := (*list)[:0:0], taken
		if rank == bySpec {
			others = slices.Concat(taken, nodes)
		}
		for _, a := range *list {
			why, err := b.refusalOf(a, rank, record, others)
			if err != nil {
				return nil, err
			}
			if why != "" {
				refused = append(refused, why)
				continue
			}
			own = append(own, a)
			// Node objects do not have all addresses of a machine. Agents know them, and route one of their machine to
			// the switch for a load balancer only.
			if host := master.MachineWith(r, a); host != "" && rank == bySpec {
				refused = append(refused, fmt.Sprintf("%s is an address on an interface of node %s: it serves pods only; use an address of a load balancer for others", a, host))
			}
		}
		if len(own) > maxExternal {
			refused = append(refused, fmt.Sprintf("%d of %d addresses are too many: at most %d are served; use several services", len(own)-maxExternal, len(own), maxExternal))
			own = own[:maxExternal]
		}
		*list = own
	}
	record.LoadBalancers, record.AtNodes = splitNodeAddresses(record.LoadBalancers, nodes)
	return refused, nil
}

// refusalOf returns why a service may not have an external address; empty: it may. taken are the addresses of others
// than services.
func (b *balancer) refusalOf(a netip.Addr, rank int, record *mastercfg.K8sService, taken []claim) (string, error) {
	if !record.Reaches(a) {
		return missingFamily(record, a), nil
	}
	if with := overlapping(inet.Host(a), taken); with != nil {
		return fmt.Sprintf("%s is in %s; use another address", a, with), nil
	}
	owner, err := b.ownerOf(a, rank, record)
	if err != nil || owner == "" {
		return "", err
	}
	return fmt.Sprintf("%s is an address of service %s; use another address", a, owner), nil
}

// missingFamily returns the problem of an external address whose service has no ClusterIP of the same IP family,
// by which agents find the backends.
func missingFamily(record *mastercfg.K8sService, a netip.Addr) string {
	its, other := "IPv4", "IPv6"
	if a.Is6() {
		its, other = other, its
	}
	return fmt.Sprintf("%s is of %s, and service %s/%s has no cluster address of %s: make it dual-stack, or use an address of %s", a, its, record.Namespace, record.Name, its, other)
}

// splitNodeAddresses splits the addresses of load balancers: at addresses of nodes (some), which load balancers
// without addresses of their own use, only the ports of the service are served; the others (whole) belong to the
// service.
func splitNodeAddresses(all []netip.Addr, nodes []claim) (whole, some []netip.Addr) {
	for _, a := range all {
		if overlapping(inet.Host(a), nodes) != nil {
			some = append(some, a)
		} else {
			whole = append(whole, a)
		}
	}
	return whole, some
}

// servicesAtAddressesOf lists the services that have an address of a node as external address: they change when
// the node comes or goes.
func (b *balancer) servicesAtAddressesOf(object any) (services []string) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return nil
	}
	for _, a := range node.Status.Addresses {
		for _, address := range addresses([]string{a.Address}) { // else a name
			keys, _ := b.addressed.IndexKeys(addressIndex, address.String()) // its own index
			services = append(services, keys...)
		}
	}
	return services
}

// sameAddresses reports whether an update of a Node has left its addresses as they were. Services need not be
// reconciled after the status updates that kubelet sends every few minutes.
func sameAddresses(before, now any) bool {
	was, _ := before.(*corev1.Node)
	is, _ := now.(*corev1.Node)
	return was != nil && is != nil && slices.Equal(was.Status.Addresses, is.Status.Addresses)
}

// reservedAddresses returns the addresses that no service may have as external ones, without those of nodes.
func (b *balancer) reservedAddresses(r ledger.Reader, tenants []string) (all []claim, err error) {
	all = slices.Clone(neverExternal)
	for _, object := range b.ranges.GetStore().List() {
		o := object.(*networkingv1.ServiceCIDR) // the store has nothing else
		for _, text := range o.Spec.CIDRs {
			all = claimed(all, "service range "+o.Name, text)
		}
	}
	g, err := ledger.Read[contivmodel.Global](r, mastercfg.ModelKey("global", contivmodel.GlobalName))
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	err = ledger.ReadEach(r, mastercfg.ModelKey("network", ""), func(_ string, n contivmodel.Network) error {
		what := "network " + n.NetworkName
		switch {
		case n.TenantName == mastercfg.DefaultTenant || slices.Contains(tenants, n.TenantName):
		case n.Encap == "vlan" && g.FwdMode == "routing": // which share the addresses outside
			what = "a network on VLANs of another tenant,"
		default:
			return nil
		}
		if four, err := resources.ParseSubnet(n.Subnet); err == nil { // else it has none
			all = append(all, claim{what, four.CIDR()})
		}
		all = claimed(all, what, n.Ipv6Subnet)
		return nil
	})
	if err != nil {
		return nil, err
	}
	private, err := privateClaims(r)
	return append(all, private...), err
}

// nodeClaims returns the addresses of nodes.
func nodeClaims(nodes corelisters.NodeLister) (all []claim, err error) {
	listed, err := nodes.List(labels.Everything())
	for _, n := range listed {
		for _, a := range n.Status.Addresses {
			for _, address := range addresses([]string{a.Address}) { // else a name
				all = append(all, claim{"addresses of node " + n.Name, inet.Host(address)})
			}
		}
	}
	return all, err
}

// privateClaims returns the private subnet, if there is one yet.
func privateClaims(r ledger.Reader) (all []claim, err error) {
	err = ledger.ReadEach(r, mastercfg.ModelKey("global", ""), func(_ string, g contivmodel.Global) error {
		all = claimed(all, "private subnet", g.PvtSubnet)
		return nil
	})
	return all, err
}

// claimed appends a range if the text is a prefix.
func claimed(all []claim, what, text string) []claim {
	if p, err := netip.ParsePrefix(text); err == nil {
		all = append(all, claim{what, p.Masked()})
	}
	return all
}
