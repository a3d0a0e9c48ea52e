package api

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/tiers"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// verdictPath is the route that reports whether one endpoint may reach another.
const verdictPath = "/api/v1/verdict"

// tierNames are the names of the tiers in answers.
var tierNames = map[int]string{
	tiers.OfGroups: "groups, final", tiers.None: "none", tiers.Unknown: "pod not known",
	0: "ClusterNetworkPolicy, Admin", 1: "NetworkPolicy", 2: "ClusterNetworkPolicy, Baseline",
}

// verdict answers whether an endpoint may open a connection to another, and which rules decide.
func (a *API) verdict(r *http.Request) (rest.Reply, error) {
	q := r.URL.Query()
	port, err := strconv.ParseUint(q.Get("port"), 10, 16)
	protocol := inet.TransportNumber(q.Get("protocol"))
	if err != nil || port == 0 || protocol == 0 {
		return rest.Reply{}, fault.New(fault.Invalid, "port %q, protocol %q: want 1 to 65535, and tcp, udp or sctp", q.Get("port"), q.Get("protocol"))
	}
	all := contivmodel.Verdicts{From: q.Get("from"), To: q.Get("to"), Protocol: q.Get("protocol"), Port: int(port)}
	caller := auth.CallerFrom(r.Context())
	err = a.search(r.Context(), func(r ledger.Reader) error {
		j := judge{about: tiers.Connection{Protocol: protocol, Port: uint16(port)}}
		sees, err := seesNetworks(caller, r)
		if err != nil {
			return err
		}
		if err := j.read(r, sees, all.From, all.To); err != nil {
			return err
		}
		for i := range j.from.addresses {
			if from, to := j.from.addresses[i], j.to.addresses[i]; from.IsValid() && to.IsValid() {
				all.Verdicts = append(all.Verdicts, j.verdict(from, to))
			}
		}
		return nil
	})
	return rest.Reply{Body: all}, err
}

// judge has the records about two endpoints.
type judge struct {
	from, to judged
	rules    []mastercfg.CfgPolicyRule
	state    tiers.State
	about    tiers.Connection
}

// judged is an endpoint as policies see it.
type judged struct {
	id, tenant string
	group      int
	node       string
	access     bool // the node's own endpoint
	end        tiers.End
	addresses  [2]netip.Addr // IPv4, IPv6; invalid: none
	known      []netip.Addr  // for a node's own endpoint: InternalIPs of the node
}

func (j *judge) read(r ledger.Reader, sees func(networkID string) bool, from, to string) (err error) {
	if j.from, err = readJudged(r, sees, from); err != nil {
		return err
	}
	if j.to, err = readJudged(r, sees, to); err != nil {
		return err
	}
	if err := ledger.ReadEach(r, mastercfg.PolicyRulePrefix, func(_ string, rule mastercfg.CfgPolicyRule) error {
		j.rules = append(j.rules, rule)
		return nil
	}); err != nil {
		return err
	}
	if vrf, err := ledger.Read[mastercfg.VRFState](r, mastercfg.VRFPrefix+j.from.tenant); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	} else if vrf.PolicyMode == mastercfg.PolicyFinal {
		j.state.Final = j.rules
	}
	j.state.Classes, j.state.Policies = map[uint16]mastercfg.K8sClass{}, map[string]mastercfg.K8sPolicy{}
	for _, end := range []tiers.End{j.from.end, j.to.end} {
		if class, err := ledger.Read[mastercfg.K8sClass](r, mastercfg.K8sClassKey(end.Class)); err == nil {
			j.state.Classes[end.Class] = class
		} else if !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return ledger.ReadEach(r, mastercfg.K8sPolicyPrefix, func(key string, policy mastercfg.K8sPolicy) error {
		j.state.Policies[strings.TrimPrefix(key, mastercfg.K8sPolicyPrefix)] = policy
		return nil
	})
}

// readJudged finds an endpoint among those that the caller sees, and reads the records of its pod.
func readJudged(r ledger.Reader, sees func(networkID string) bool, name string) (judged, error) {
	ep, err := lookupOneOf(r, sees, name)
	if err != nil {
		return judged{}, err
	}
	j := judged{
		id: ep.ID, tenant: tenantOfEndpoint(r, ep.NetID), group: ep.EndpointGroupID, node: ep.HomingHost,
		access: ep.PodUID == "" && (ep.EndpointID == "" || ep.EndpointID == ep.HomingHost),
		end:    tiers.End{Judged: ep.PodUID != ""},
	}
	for i, text := range []string{ep.IPAddress, ep.IPv6Address} {
		if address, err := netip.ParseAddr(text); err == nil { // otherwise it has none
			j.addresses[i] = address
		}
	}
	if j.access {
		node, err := ledger.Read[mastercfg.K8sNode](r, mastercfg.K8sNodePrefix+ep.HomingHost)
		if fault.Is(err, fault.NotFound) {
			return j, nil // it is not a node of Kubernetes
		}
		j.known = node.Addresses
		return j, err
	}
	if ep.PodUID == "" {
		return j, nil
	}
	pod, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey(ep.HomingHost, ep.PodUID))
	if err != nil && !fault.Is(err, fault.NotFound) {
		return j, err
	}
	j.end.Class, j.end.Classed = pod.Class, pod.Classed
	return j, nil
}

// verdict evaluates all tiers in order until one denies.
func (j *judge) verdict(from, to netip.Addr) contivmodel.Verdict {
	v := contivmodel.Verdict{From: from.String(), To: to.String()}
	asked := func(of string, allowed bool, tier, rule string) bool {
		v.Judged = append(v.Judged, contivmodel.Judgement{Of: of, Allowed: allowed, Tier: tier, Rule: rule})
		return allowed
	}
	if j.from.tenant != j.to.tenant {
		asked("packets", false, "tenants", "")
		return v
	}
	c := j.about
	c.From, c.To = j.from.end, j.to.end
	c.From.Address, c.To.Address = from, to
	c.From.Group, c.To.Group = j.from.group, j.to.group
	c.From.Known = slices.DeleteFunc(slices.Clone(j.from.known), func(a netip.Addr) bool { return a.Is4() != from.Is4() })
	c.OwnNode = j.from.node == j.to.node && (j.from.access || j.to.access)
	if j.from.id == j.to.id {
		v.Allowed = asked("packets", true, "itself", "")
		return v
	}
	allowed, rule := tiers.Groups(j.rules, j.from.group, j.to.group, c)
	tier := tierNames[tiers.None]
	if rule != "" {
		tier = "groups"
	}
	out, in := j.state.Out(c), j.state.In(c)
	v.Allowed = asked("packets", allowed, tier, rule) && asked("egress", out.Allowed, tierNames[out.Tier], out.Policy) &&
		asked("ingress", in.Allowed, tierNames[in.Tier], in.Policy)
	return v
}
