package master

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
)

// Owned are the prefixes plans read and write. What agents report about
// themselves (oper/eps, oper/ovs-driver) is not among them.
var Owned = []string{
	mastercfg.ModelRoot, mastercfg.StateRoot, mastercfg.GlobalRoot,
	mastercfg.OperRoot + "global/", mastercfg.OperRoot + "auto-vlan/", mastercfg.OperRoot + "auto-vxlan/",
	mastercfg.OperRoot + "auto-epg/", mastercfg.NodeGCPrefix, mastercfg.DockerPrefix,
}

// Open opens the ledger of a term with the indexes that plans search. What adds
// to the store is asked for by admit; nil admits all.
func Open(ctx context.Context, term *objdb.Term, admit func() error) (*ledger.Ledger, error) {
	return ledger.Open(ctx, term, ledger.Config{Owned: Owned, Indexes: indexes(), Admit: admit})
}

// Terms that values are found under. What follows a name in a term is joined by
// slashes, which no name contains.
const (
	linkTerm     = "link/"    // <type>/<key>/<link-set>: objects in a link-set of an object
	namesTerm    = "names/"   // <T>/<N>: rules that name a network
	ipv4Term     = "ipv4/"    // <T>/<last address>: networks by the end of their range
	ipv6Term     = "ipv6/"    // <T>/<last address>
	addressTerm  = "address/" // <N.T>/<address>: endpoints by address
	vipTerm      = "vip/"     // <N.T>/<address>: services by address
	runningTerm  = "running/" // <N.T>: endpoints whose container runs
	cidTerm      = "cid/"     // <container id>: the same
	rangeTerm    = "range/"   // <T>/<N>: groups with a range of a network
	poolTerm     = "pool/"    // N:G.T: groups, as container runtimes name their range
	subnetTerm   = "subnet/"  // <subnet>: networks of any tenant
	bindingTerm  = "binding/" // <T:P>: bindings of a policy
	vrfTerm      = "vrf/"     // <number>: routing domains
	decimalWidth = "%05d"     // makes numbers sort
)

func indexes() []ledger.Index {
	return []ledger.Index{
		indexed(mastercfg.ModelKey("endpointGroup", ""), groupTerms),
		indexed(mastercfg.ModelKey("rule", ""), ruleTerms),
		indexed(mastercfg.ModelKey("serviceLB", ""), serviceTerms),
		indexed(mastercfg.ModelKey("appProfile", ""), profileTerms),
		indexed(mastercfg.ModelKey("network", ""), networkTerms),
		indexed(mastercfg.EndpointPrefix, endpointTerms),
		indexed(mastercfg.ServiceLBPrefix, vipTerms),
		indexed(mastercfg.VRFPrefix, func(v *mastercfg.VRFState) []string { return []string{vrfNumber(v.VRF)} }),
		{Prefix: mastercfg.PolicyPrefix, Terms: bindingTerms},
	}
}

// indexed indexes the decoded values below a prefix.
func indexed[T any](prefix string, terms func(*T) []string) ledger.Index {
	return ledger.Index{Prefix: prefix, Terms: func(_ string, value []byte) []string {
		var v T
		if json.Unmarshal(value, &v) != nil {
			return nil
		}
		return terms(&v)
	}}
}

func link(objType, key, set string) string { return linkTerm + objType + "/" + key + "/" + set }

func groupTerms(g *contivmodel.EndpointGroup) []string {
	terms := []string{
		link("network", g.TenantName+":"+g.NetworkName, "EndpointGroups"),
		poolTerm + g.NetworkName + ":" + g.GroupName + "." + g.TenantName,
	}
	if g.IPPool != "" {
		terms = append(terms, rangeTerm+g.TenantName+"/"+g.NetworkName)
	}
	for _, name := range g.Policies {
		terms = append(terms, link("policy", g.TenantName+":"+name, "EndpointGroups"))
	}
	for _, name := range g.ExtContractsGrps {
		terms = append(terms, link("extContractsGroup", g.TenantName+":"+name, "EndpointGroups"))
	}
	if g.NetProfile != "" {
		terms = append(terms, link("netprofile", g.TenantName+":"+g.NetProfile, "EndpointGroups"))
	}
	return terms
}

func ruleTerms(r *contivmodel.Rule) []string {
	var terms []string
	if name := PeerGroup(r); name != "" {
		terms = append(terms, link("endpointGroup", r.TenantName+":"+name, "MatchRules"))
	}
	for _, name := range []string{r.FromNetwork, r.ToNetwork} {
		if name != "" {
			terms = append(terms, namesTerm+r.TenantName+"/"+name)
		}
	}
	return terms
}

func serviceTerms(s *contivmodel.ServiceLB) []string {
	return []string{link("network", s.TenantName+":"+s.NetworkName, "Servicelbs")}
}

// networkTerms order the networks of a tenant by the last address of their
// range: networks of a tenant do not overlap, so the first one that ends at or
// after an address is the only one that can hold it.
func networkTerms(n *contivmodel.Network) []string {
	var terms []string
	if subnet, err := resources.ParseSubnet(n.Subnet); err == nil {
		terms = append(terms, ipv4Term+n.TenantName+"/"+sortable(subnet.Last), subnetTerm+subnet.Prefix.String())
	}
	if prefix, err := resources.ParseIPv6Subnet(n.Ipv6Subnet); err == nil {
		terms = append(terms, ipv6Term+n.TenantName+"/"+sortable(resources.LastIPv6(prefix)), subnetTerm+prefix.String())
	}
	return terms
}

// sortable writes an address so that texts sort as addresses do.
func sortable(addr netip.Addr) string { return fmt.Sprintf("%x", addr.AsSlice()) }

func profileTerms(p *contivmodel.AppProfile) []string {
	var terms []string
	for _, name := range p.EndpointGroups {
		terms = append(terms, link("endpointGroup", p.TenantName+":"+name, "AppProfile"))
	}
	return terms
}

func vipTerms(s *struct{ TenantName, Subnet, IPAddress string }) []string {
	return []string{vipTerm + mastercfg.NetworkID(s.TenantName, s.Subnet) + "/" + s.IPAddress}
}

func endpointTerms(ep *struct{ NetID, IPAddress, IPv6Address, ContainerID string }) []string {
	var terms []string
	if ep.ContainerID != "" {
		terms = append(terms, runningTerm+ep.NetID, cidTerm+ep.ContainerID)
	}
	for _, addr := range []string{ep.IPAddress, ep.IPv6Address} {
		if addr != "" {
			terms = append(terms, addressTerm+ep.NetID+"/"+addr)
		}
	}
	return terms
}

func bindingTerms(key string, _ []byte) []string {
	policy, ok := policyOfBinding(key[len(mastercfg.PolicyPrefix):])
	if !ok {
		return nil
	}
	return []string{bindingTerm + policy}
}

func vrfNumber(n uint16) string { return fmt.Sprintf(vrfTerm+decimalWidth, n) }

// found visits the keys that are indexed under exactly one term.
func found(r ledger.Reader, term string, visit func(key string) bool) {
	r.Search(term, "", func(at, key string) bool { return at == term && visit(key) })
}

// keysOf are the model keys of the objects of a type that are indexed under a term.
func keysOf(r ledger.Reader, term, objType string) []string {
	var keys []string
	prefix := mastercfg.ModelKey(objType, "")
	found(r, term, func(key string) bool {
		keys = append(keys, strings.TrimPrefix(key, prefix))
		return true
	})
	return keys
}
