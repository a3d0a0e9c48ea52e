package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Netmaster's expansion of the rules of random models, and the oracle that knows the model only, agree about every
// packet between two pods.
func TestTheRulesThatAgentsGetMeanWhatTheModelSays(t *testing.T) {
	t.Parallel()
	for range 100 {
		seed := rand.Uint64()
		w := newWorld(landscapes[rand.IntN(len(landscapes))], seed, 3, 9)
		for i, p := range w.pods {
			n := w.network(p.tenant, p.network)
			for _, a := range []netip.Addr{n.host4(byte(i + 1)), n.host6(byte(i + 1))} {
				if a.IsValid() {
					p.addresses = append(p.addresses, a)
				}
			}
		}
		rules, err := w.expanded()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, p := range w.packets() {
			if got, want := w.judged(rules, p), w.passes(p); got != want {
				t.Fatalf("seed %d: %+v from %s to %s passes: %v, want %v\n%s", seed, p, p.from.name, p.to.name, got, want, w.documents())
			}
		}
	}
}

// expanded returns the rules of all bindings.
func (w *world) expanded() (all []mastercfg.CfgPolicyRule, err error) {
	for _, g := range w.groups {
		for _, r := range w.rules {
			if r.tenant != g.tenant || !slices.Contains(g.policies, r.policy) {
				continue
			}
			far, far6 := "", ""
			if r.address.IsValid() {
				far = r.address.String()
			} else if n := w.network(r.tenant, r.network); n.subnet4.IsValid() && n.subnet6.IsValid() {
				far, far6 = n.subnet4.String(), n.subnet6.String()
			} else if n.subnet4.IsValid() {
				far = n.subnet4.String()
			} else if n.subnet6.IsValid() {
				far = n.subnet6.String()
			}
			peer := master.Peer{Group: w.number(r.tenant, r.group), From: far, From6: far6}
			if r.direction == "out" {
				peer = master.Peer{Group: peer.Group, To: far, To6: far6}
			}
			rule := contivmodel.Rule{TenantName: r.tenant, PolicyName: r.policy, RuleID: r.id, Direction: r.direction, Action: r.action,
				Protocol: r.protocol, Port: r.port, Priority: r.priority}
			some, err := master.Expand(&rule, g.name, w.number(g.tenant, g.name), peer)
			if err != nil {
				return nil, fmt.Errorf("rule %s: %w", r.id, err)
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

// number returns the number of a group; 0: there is none.
func (w *world) number(tenant, name string) int {
	return 1 + slices.IndexFunc(w.groups, func(g worldGroup) bool { return g.tenant == tenant && g.name == name })
}

// packets returns those that pods may send each other.
func (w *world) packets() (all []passing) {
	for _, from := range w.pods {
		for _, to := range w.pods {
			for _, dst := range to.addresses {
				for _, p := range []passing{
					{protocol: "icmp"}, {protocol: "udp", dport: 7}, {protocol: "udp", sport: 7}, {protocol: "udp", dport: 53},
					{protocol: "tcp", dport: 80, opens: true}, {protocol: "tcp", dport: 80}, {protocol: "tcp", sport: 80}, {protocol: "tcp", dport: 22, opens: true},
					{protocol: "132", dport: 9}, {protocol: "132", sport: 9}, {protocol: "132", dport: 80},
				} {
					if p.from, p.to, p.src, p.dst = from, to, from.like(dst), dst; p.src.IsValid() {
						all = append(all, p)
					}
				}
			}
		}
	}
	return all
}

// judged evaluates the expanded rules.
func (w *world) judged(rules []mastercfg.CfgPolicyRule, p passing) bool {
	verdict, best := true, 0
	for _, r := range rules {
		switch {
		case r.Priority < best || !w.matches(r, p):
		case r.Priority == best:
			verdict = verdict && r.Action == "allow"
		default:
			verdict, best = r.Action == "allow", r.Priority
		}
	}
	return verdict
}

func (w *world) matches(r mastercfg.CfgPolicyRule, p passing) bool {
	number := func(want, got int) bool { return want == 0 || want == got }
	address := func(want, want6 string, got netip.Addr) bool {
		return want == "" || netip.MustParsePrefix(want).Contains(got) || want6 != "" && netip.MustParsePrefix(want6).Contains(got)
	}
	protocol := map[string]int{"icmp": 1, "tcp": 6, "udp": 17, "132": 132}[p.protocol]
	return number(r.SrcEndpointGroup, w.number(p.from.tenant, p.from.group)) && number(r.DstEndpointGroup, w.number(p.to.tenant, p.to.group)) &&
		address(r.SrcIPAddr, r.SrcIPv6Addr, p.src) && address(r.DstIPAddr, r.DstIPv6Addr, p.dst) &&
		number(int(r.IPProtocol), protocol) && number(int(r.SrcPort), p.sport) && number(int(r.DstPort), p.dport) &&
		(r.TCPFlags == "" || p.opens) && !(p.opens && r.Action == "allow" && r.IPProtocol == 6 && r.SrcPort != 0) // nobody opens from the port of answers
}
