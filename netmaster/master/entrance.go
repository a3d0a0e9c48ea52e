package master

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// Entrances are where hosts and external clients reach a service: external addresses with its ports, and node
// ports. They belong to the whole cluster, not to a tenant.

// Node ports are those of Kubernetes, which hosts leave free: above the well-known ports and below
// the kernel's ephemeral ports.
const (
	firstNodePort = 30000
	lastNodePort  = 32767
)

// mostExternal is how many external addresses a service may have: each takes flows for each port and provider.
const mostExternal = 8

// CheckEntrances returns an error for entrances of a service that are invalid by themselves.
func CheckEntrances(s *contivmodel.ServiceLB) error {
	refuse := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, format, args...).WithField(field)
	}
	if len(s.ExternalIPs) > mostExternal {
		return refuse("externalIps", "service %s has %d external addresses: want at most %d", s.ServiceName, len(s.ExternalIPs), mostExternal)
	}
	for i, text := range s.ExternalIPs {
		a, err := netip.ParseAddr(text)
		if err != nil || a.String() != text || !a.IsGlobalUnicast() || a.Is4In6() || a.Zone() != "" || slices.Contains(s.ExternalIPs[:i], text) {
			return refuse("externalIps", "external address %q: want addresses of hosts, each once and in its shortest form, such as 203.0.113.80 or 2001:db8::80", text)
		}
	}
	for i, text := range s.NodePorts {
		node, service, protocol := splitPort(text)
		n, err := strconv.ParseUint(node, 10, 16)
		same := func(other string) bool {
			otherNode, _, otherProtocol := splitPort(other)
			return node == otherNode && protocol == otherProtocol
		}
		switch {
		case err != nil || n < firstNodePort || n > lastNodePort || slices.ContainsFunc(s.NodePorts[:i], same):
			return refuse("nodePorts", "node port %q: want nodePort:servicePort:protocol, each nodePort of a protocol once, in %d..%d, such as 30080:80:tcp",
				text, firstNodePort, lastNodePort)
		case !slices.ContainsFunc(s.Ports, func(port string) bool {
			own, _, p := splitPort(port)
			return own == service && p == protocol
		}):
			return refuse("nodePorts", "node port %q: the service has no port %s:%s", text, service, protocol)
		}
	}
	return nil
}

// splitPort splits "80:8080:TCP", in the form in which equal ones are equal: the protocol in lower case, numbers without
// leading zeros.
func splitPort(text string) (first, second, protocol string) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return "", "", ""
	}
	return strings.TrimLeft(parts[0], "0"), strings.TrimLeft(parts[1], "0"), strings.ToLower(parts[2])
}

// checkTaken returns an error for entrances that another service has, and for addresses that the tenant has in
// a network or that the cluster uses itself.
func checkTaken(r ledger.Reader, s *contivmodel.ServiceLB, rec *mastercfg.CfgServiceLBState) error {
	if len(rec.ExternalIPs)+len(rec.NodePorts) == 0 {
		return nil
	}
	for _, term := range entranceTerms(rec) {
		if owner := otherOwner(r, term, rec.ID); owner != "" {
			return fault.New(fault.Conflict, "service %s: %s is that of service %s", rec.ID, strings.TrimPrefix(term, entranceTerm), owner).
				WithDetails("serviceLB " + owner)
		}
	}
	g, err := Get[contivmodel.Global](r, contivmodel.GlobalName, fault.New(fault.Mode, "there is no global object"))
	if err != nil {
		return err
	}
	net, err := GetNetwork(r, mastercfg.NetworkID(rec.Tenant, rec.Network))
	if err != nil {
		return err
	}
	if g.FwdMode == "bridge" || net.PktTagType != "vxlan" {
		return fault.New(fault.Mode, "service %s: external addresses and node ports need a network of encapsulation vxlan and forwarding mode routing; network %s has %s, the cluster %s",
			rec.ID, rec.Network, net.PktTagType, g.FwdMode)
	}
	private, _ := netip.ParsePrefix(g.PvtSubnet) // checked when it was set; empty: none
	for _, text := range rec.ExternalIPs {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return err // CheckEntrances has refused it
		}
		if private.IsValid() && private.Contains(a) {
			return fault.New(fault.Conflict, "external address %s is in the private subnet %s", a, private).WithField("externalIps")
		}
		if tenant := tenantOfExternal(r, a, rec); tenant != "" {
			return fault.New(fault.Conflict, "external address %s is that of services of tenant %s", a, tenant).WithField("externalIps")
		}
		var in *contivmodel.Network
		if a.Is4() {
			in, err = OverlapIPv4(r, s.TenantName, only(a))
		} else {
			in, err = OverlapIPv6(r, s.TenantName, inet.Host(a))
		}
		if err != nil {
			return err
		}
		if in != nil {
			return fault.New(fault.Conflict, "external address %s is in network %s", a, in.NetworkName).WithField("externalIps").WithDetails("network " + in.Key)
		}
		if in, err = NetworkOutside(r, a); err != nil {
			return err
		}
		if in != nil {
			return fault.New(fault.Conflict, "external address %s is in network %s of tenant %s: routed networks of encapsulation vlan share the addresses outside",
				a, in.NetworkName, in.TenantName).WithField("externalIps").WithDetails("network " + in.Key)
		}
	}
	return nil
}

// only returns the subnet of one address.
func only(a netip.Addr) resources.Subnet {
	return resources.Subnet{Prefix: inet.Host(a), First: a, Last: a}
}

// ExternalIn finds an external address of a tenant's services (of all tenants' for OnVLANs) in the subnets of a
// network to be created, and its service; "" if there is none.
func ExternalIn(r ledger.Reader, tenant string, n *contivmodel.Network) (service string, at netip.Addr) {
	four, err4 := resources.ParseSubnet(n.Subnet)
	six, err6 := resources.ParseIPv6Subnet(n.Ipv6Subnet)
	r.Search(externalTerm, "", func(term, key string) bool {
		id := strings.TrimPrefix(key, mastercfg.ServiceLBPrefix)
		_, of, _ := strings.Cut(id, ":")
		a, err := netip.ParseAddr(strings.TrimPrefix(term, externalTerm))
		if err == nil && (of == tenant || tenant == OnVLANs) && (a.Is4() && err4 == nil && four.Overlaps(only(a)) || a.Is6() && err6 == nil && six.Contains(a)) {
			service, at = id, a
		}
		return service == ""
	})
	return service, at
}

// K8sExternalIn finds an external address of a service of Kubernetes in the subnets of a network to be created,
// and its service; "" if there is none.
func K8sExternalIn(r ledger.Reader, n *contivmodel.Network) (service string, at netip.Addr, err error) {
	four, err4 := resources.ParseSubnet(n.Subnet)
	six, err6 := resources.ParseIPv6Subnet(n.Ipv6Subnet)
	err = ledger.ReadEach(r, mastercfg.K8sServicePrefix, func(_ string, s mastercfg.K8sService) error {
		for _, a := range slices.Concat(s.External, s.LoadBalancers, s.AtNodes) {
			if a.Is4() && err4 == nil && four.Overlaps(only(a)) || a.Is6() && err6 == nil && six.Contains(a) {
				service, at = s.Namespace+"/"+s.Name, a
			}
		}
		return nil
	})
	return service, at, err
}

// entranceTerms index the records of services by their entrances, which only one service can have.
func entranceTerms(rec *mastercfg.CfgServiceLBState) (terms []string) {
	for _, text := range rec.NodePorts {
		node, _, protocol := splitPort(text)
		terms = append(terms, entranceTerm+"node port "+node+" of "+protocol)
	}
	for _, external := range rec.ExternalIPs {
		for _, text := range rec.Ports {
			port, _, protocol := splitPort(text)
			terms = append(terms, entranceTerm+"port "+port+" of "+protocol+" at "+external)
		}
	}
	return terms
}

// EnteredAt returns the service (S:T) that a host leads packets to, by an external address or a node port of a machine
// of the cluster; "" if there is none.
func EnteredAt(r ledger.Reader, a netip.Addr, port uint16, protocol string) string {
	if service := otherOwner(r, fmt.Sprintf("%sport %d of %s at %s", entranceTerm, port, protocol, a), ""); service != "" {
		return service
	}
	if MachineWith(r, a) == "" {
		return ""
	}
	return otherOwner(r, fmt.Sprintf("%snode port %d of %s", entranceTerm, port, protocol), "")
}

// externalTerms index the records of services by their external addresses: errors about packets are looked up
// by an address, without a port.
func externalTerms(rec *mastercfg.CfgServiceLBState) (terms []string) {
	for _, external := range rec.ExternalIPs {
		terms = append(terms, shared(externalTerm+external))
	}
	return terms
}

func otherOwner(r ledger.Reader, term, own string) (owner string) {
	found(r, term, func(key string) bool {
		if id := strings.TrimPrefix(key, mastercfg.ServiceLBPrefix); id != own {
			owner = id
		}
		return owner == ""
	})
	return owner
}

// tenantOfExternal returns another tenant that has an external address; "" if there is none.
func tenantOfExternal(r ledger.Reader, a netip.Addr, rec *mastercfg.CfgServiceLBState) (tenant string) {
	found(r, externalTerm+a.String(), func(key string) bool {
		if _, of, _ := strings.Cut(strings.TrimPrefix(key, mastercfg.ServiceLBPrefix), ":"); of != rec.Tenant {
			tenant = of
		}
		return tenant == ""
	})
	return tenant
}
