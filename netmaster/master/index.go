package master

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// owned are the prefixes that plans read and write. Reports of agents about themselves (oper/eps, oper/ovs-driver)
// are not among them. The registry is, although plans do not write it: it decides what is freed.
var owned = append([]string{
	mastercfg.ModelRoot, mastercfg.StateRoot, mastercfg.GlobalRoot, mastercfg.AccessRoot,
	mastercfg.OperRoot + "global/", mastercfg.HeldPrefix, mastercfg.IPv4CounterPrefix, mastercfg.IPv6CounterPrefix, mastercfg.NodeGCPrefix, mastercfg.DockerPrefix, mastercfg.K8sRefusedPrefix,
	// Where an older netmaster stores what is free.
	mastercfg.OperRoot + "auto-vlan/", mastercfg.OperRoot + "auto-vxlan/", mastercfg.OperRoot + "auto-epg/",
}, registries...)

// Follow caches the state that Open begins with, while another netmaster leads.
func Follow(ctx context.Context, db *objdb.DB) *ledger.Standby {
	return ledger.Follow(ctx, db, ledger.Config{Owned: owned, Indexes: indexes()})
}

// Open opens the ledger of a term with the indexes that plans search. Plans that add to the store must pass
// admit; nil admits all. Without a standby the state is listed. Each plan of the term changes the epoch if it
// changes verdicts of group rules (epoch.go).
func Open(ctx context.Context, term *objdb.Term, standby *ledger.Standby, admit func() error) (*ledger.Ledger, error) {
	return ledger.Open(ctx, term, ledger.Config{
		Owned: owned, Indexes: indexes(), Admit: admit, Derive: rejudging(EpochFloor(time.Now())), Order: order,
		Standby: standby,
	})
}

// Index terms, besides the numbers of numbers.go. The parts after a name are joined by slashes, which no name contains.
const (
	counterTerm  = "counter/"  // <N.T> or <G:T>: counter of the IPv4 addresses of a network, or of a group's range
	linkTerm     = "link/"     // <type>/<key>/<link-set>: objects in a link-set of an object
	namesTerm    = "names/"    // <T>/<N>: rules that name a network
	ipv4Term     = "ipv4/"     // <T>/<last address>: networks by the end of their range
	ipv6Term     = "ipv6/"     // <T>/<last address>
	runningTerm  = "running/"  // <N.T>: endpoints whose container runs
	cidTerm      = "cid/"      // <container id>: likewise
	memberTerm   = "member/"   // <G:T>: endpoints of a group
	hostTerm     = "host/"     // <host label>: endpoints of a host
	staticTerm   = "static/"   // <host label>: endpoints of static pods of Kubernetes on a host, counted
	inTerm       = "in/"       // <N.T>: endpoints in a network, counted
	heldTerm     = "held/"     // <N.T>: addresses of a network that are assigned without an endpoint, counted
	endsTerm     = "ends/"     // <T>: endpoints in networks whose ids end like those of a tenant, counted
	tenantTerm   = "tenant/"   // <T>: networks of a tenant except infra networks
	agentTerm    = "agent/"    // <host label>: registrations of its agent
	machineTerm  = "machine/"  // <address>: registrations of agents whose machine has it
	rangeTerm    = "range/"    // <N.T>/<last address>/<first address>: groups with a range of a network
	poolTerm     = "pool/"     // N:G.T: groups, by the container runtimes' name of their range
	subnetTerm   = "subnet/"   // <subnet>: networks of any tenant
	entranceTerm = "entrance/" // the one service that is reached there, such as "node port 30080 of tcp"
	externalTerm = "external/" // <address>: services that have it
	bindingTerm  = "binding/"  // <T:P>: bindings of a policy
	routerTerm   = "router/"   // <address>: BGP speakers that have it in the subnet of the external routers
	askedTerm    = "asked/"    // <N.T>/<address>: pods of Kubernetes that request it
	reachedTerm  = "reached/"  // <address>: registrations of agents, and of tunnel ends, that are reached there
)

func indexes() []ledger.Index {
	return []ledger.Index{
		indexed(mastercfg.ModelKey("endpointGroup", ""), groupTerms),
		indexed(mastercfg.ModelKey("rule", ""), ruleTerms),
		indexed(mastercfg.ModelKey("serviceLB", ""), serviceTerms),
		indexed(mastercfg.ModelKey("appProfile", ""), profileTerms),
		indexed(mastercfg.ModelKey("network", ""), networkTerms),
		indexed(mastercfg.ModelKey("Bgp", ""), routerTerms),
		indexed(mastercfg.EndpointPrefix, endpointTerms),
		indexed(mastercfg.ServiceLBPrefix, vipTerms),
		indexed(mastercfg.NetworkPrefix, networkNumbers),
		indexed(mastercfg.NetworkPrefix, tenantTerms),
		indexed(mastercfg.EndpointGroupPrefix, groupNumbers),
		indexed(mastercfg.VRFPrefix, func(v *mastercfg.VRFState) []string { return []string{numberTerm(vrfSet, int(v.VRF))} }),
		{Prefix: mastercfg.HeldPrefix, Terms: heldTerms},
		{Prefix: mastercfg.IPv4CounterPrefix, Terms: counterTerms},
		indexed(registries[0], agentTerms),
		indexed(registries[0], reachedTerms),
		indexed(registries[1], agentTerms),
		indexed(registries[1], machineTerms),
		indexed(registries[1], reachedTerms),
		{Prefix: mastercfg.PolicyPrefix, Terms: bindingTerms},
		indexed(mastercfg.K8sPodPrefix, podProfileTerms),
		indexed(mastercfg.K8sPodPrefix, askedTerms),
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
	if first, last, err := resources.ParsePool(g.IPPool); err == nil { // else empty
		terms = append(terms, rangeOf(mastercfg.NetworkID(g.TenantName, g.NetworkName), first, last))
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

// networkTerms sort the networks of a tenant by the last address of their range: networks of a tenant do not
// overlap, so the first one that ends at or after an address is the only one that can contain it.
func networkTerms(n *contivmodel.Network) []string {
	var terms []string
	add := func(family, subnet string, last netip.Addr) {
		terms = append(terms, family+n.TenantName+"/"+sortable(last), subnetTerm+subnet)
		if n.Encap == "vlan" {
			terms = append(terms, family+OnVLANs+"/"+sortable(last))
		}
	}
	if subnet, err := resources.ParseSubnet(n.Subnet); err == nil {
		add(ipv4Term, subnet.Prefix.String(), subnet.Last)
	}
	if prefix, err := resources.ParseIPv6Subnet(n.Ipv6Subnet); err == nil {
		add(ipv6Term, prefix.String(), resources.LastIPv6(prefix))
	}
	return terms
}

func profileTerms(p *contivmodel.AppProfile) []string {
	var terms []string
	for _, name := range p.EndpointGroups {
		terms = append(terms, link("endpointGroup", p.TenantName+":"+name, "AppProfile"))
	}
	return terms
}

func vipTerms(s *mastercfg.CfgServiceLBState) []string {
	return slices.Concat(addressTerms(mastercfg.NetworkID(s.Tenant, s.Network), s.IPAddress, s.IPv6Address),
		entranceTerms(s), externalTerms(s))
}

func endpointTerms(ep *struct{ NetID, IPAddress, IPv6Address, ContainerID, EndpointGroupKey, HomingHost, PodUID string }) []string {
	terms := append(addressTerms(ep.NetID, ep.IPAddress, ep.IPv6Address), shared(ledger.CountedTerm(inTerm+ep.NetID)))
	for rest := ep.NetID; ; {
		_, after, found := strings.Cut(rest, ".") // names of networks and of tenants may contain dots
		if !found {
			break
		}
		terms, rest = append(terms, shared(ledger.CountedTerm(endsTerm+after))), after
	}
	if ep.ContainerID != "" {
		terms = append(terms, shared(runningTerm+ep.NetID), cidTerm+ep.ContainerID)
	}
	if ep.EndpointGroupKey != "" {
		terms = append(terms, shared(memberTerm+ep.EndpointGroupKey))
	}
	if ep.HomingHost != "" {
		terms = append(terms, shared(hostTerm+ep.HomingHost))
	}
	if mastercfg.IsHash(ep.PodUID) {
		terms = append(terms, shared(ledger.CountedTerm(staticTerm+ep.HomingHost)))
	}
	return terms
}

// shared returns the one copy in memory of a term that many values have.
func shared(term string) string { return unique.Make(term).Value() }

func agentTerms(s *struct{ Hostname string }) []string { return []string{agentTerm + s.Hostname} }

// machineTerms index the registration of an agent by the addresses of its machine, as many of them as agents accept.
func machineTerms(s *struct {
	HostAddr  string
	Addresses []string
}) (terms []string) {
	for _, text := range append(s.Addresses[:min(len(s.Addresses), hostaddr.Most)], s.HostAddr) {
		if a, err := netip.ParseAddr(text); err == nil {
			terms = append(terms, machineTerm+a.Unmap().String())
		}
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

// MachineWith returns the host label of the machine that has an address on an interface, as its agent has
// registered it; empty if none has.
func MachineWith(r ledger.Reader, a netip.Addr) (host string) {
	return registeredUnder(r, machineTerm+a.String())
}

// reachedTerms index the registration of an agent, or of a tunnel end, by its address.
func reachedTerms(s *struct{ HostAddr string }) []string {
	a, err := netip.ParseAddr(s.HostAddr)
	if err != nil {
		return nil
	}
	return []string{reachedTerm + a.Unmap().String()}
}

// NodeAt returns the host label of the node whose agent or tunnel end is reached at an address; empty if there is none.
func NodeAt(r ledger.Reader, a netip.Addr) (host string) {
	return registeredUnder(r, reachedTerm+a.String())
}

// registeredUnder returns the host label of a registration that is indexed under a term; empty if there is none.
func registeredUnder(r ledger.Reader, term string) (host string) {
	found(r, term, func(key string) bool {
		s, err := ledger.Read[struct{ Hostname string }](r, key)
		host = s.Hostname
		return err != nil || host == ""
	})
	return host
}

// heldTerms index a held address, whose key is <N.T>/<address>.
func heldTerms(key string, _ []byte) []string {
	networkID, address, _ := strings.Cut(key[len(mastercfg.HeldPrefix):], "/")
	return append(addressTerms(networkID, address), shared(ledger.CountedTerm(heldTerm+networkID)))
}

func counterTerms(key string, _ []byte) []string {
	return []string{counterTerm + strings.TrimPrefix(key, mastercfg.IPv4CounterPrefix)}
}

// networkNumbers returns the tags of a network.
func networkNumbers(n *struct {
	PktTagType        string
	PktTag, ExtPktTag int
}) []string {
	if n.PktTagType == "vlan" {
		return []string{numberTerm(vlanSet, n.PktTag)}
	}
	return []string{numberTerm(vniSet, n.ExtPktTag), numberTerm(localSet, n.PktTag)}
}

// tenantTerms index a network by its tenant, unless every host has an endpoint in it.
func tenantTerms(n *struct{ Tenant, NwType string }) []string {
	if n.NwType == "infra" {
		return nil
	}
	return []string{tenantTerm + n.Tenant}
}

// groupNumbers returns the id of a group and its VLAN: that of its network, or in a fabric its own.
func groupNumbers(g *struct {
	EndpointGroupID int
	PktTagType      string
	PktTag          int
}) []string {
	terms := []string{numberTerm(groupIDSet, g.EndpointGroupID)}
	if g.PktTagType == "vlan" {
		terms = append(terms, numberTerm(vlanSet, g.PktTag))
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

// found visits the keys that are indexed under exactly one term.
func found(r ledger.Reader, term string, visit func(key string) bool) {
	r.Search(term, "", func(at, key string) bool { return at == term && visit(key) })
}

// keysOf returns the model keys of the objects of a type that are indexed under a term.
func keysOf(r ledger.Reader, term, objType string) []string {
	var keys []string
	prefix := mastercfg.ModelKey(objType, "")
	found(r, term, func(key string) bool {
		keys = append(keys, strings.TrimPrefix(key, prefix))
		return true
	})
	return keys
}
