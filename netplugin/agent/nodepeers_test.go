package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Processes of other nodes use source addresses that policies do not contain: rules that match their nodes'
// addresses allow them.
func TestARuleAboutNetworksLetsInNodesThatHaveTheirAddresses(t *testing.T) {
	const id, rule = "web.blue-pod", "networkpolicy/shop/p#0"
	node := func(name string) string { return mastercfg.K8sNodePrefix + name }
	own := func(host string) string { return epKey("contivh1.blue-" + host) }
	policy := mastercfg.K8sPolicyPrefix + "networkpolicy/shop/p"
	saying := func(more, nets string) string {
		return `{"spec":"a","rules":[{"tier":1,"verdict":"accept","subjects":[7],"nets":[` + nets + `]` + more + `}]}`
	}
	n := blueHere(t).
		put(netKey("contivh1.blue"), infraValue("blue")).
		put(mastercfg.K8sEpochKey, `{"number":3}`).
		put(mastercfg.K8sClassKey(7), `{"judgesIn":true,"isolatesIn":true}`).
		put(mastercfg.K8sPodKey(me, "u1"), `{"uid":"u1","class":7,"classed":true}`).
		put(epKey(id), podEndpoint("web.blue", me, "10.1.0.30", "u1")).
		put(own("node2"), epValue("contivh1.blue", "node2", "10.9.0.2")).
		put(own(me), epValue("contivh1.blue", me, "10.9.0.1")).
		put(node(me), `{"addresses":["192.0.2.1"]}`)
	n.step()
	nets := func(when, want string) {
		t.Helper()
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindTierRule, ID: rule})
		if got := fmt.Sprint(o.(pipeline.TierRule).Nets); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", when, got, err, want)
		}
	}
	const changed = "+tier rule " + rule
	n.put(policy, saying("", `"192.0.2.0/30","198.51.100.0/24"`)).expect("a policy", changed)
	nets("nobody knows the other node", "[192.0.2.0/30 198.51.100.0/24]")
	n.put(node("node2"), `{"addresses":["192.0.2.2"]}`).expect("a node", changed)
	nets("it is among them, this one is let in anyway", "[192.0.2.0/30 198.51.100.0/24 10.9.0.2/32]")
	n.put(node("node3"), `{"addresses":["192.0.2.3","2001:db8::3"]}`).expect("a node without an endpoint")
	n.put(own("node3"), epValue("contivh1.blue", "node3", "10.9.0.3")).expect("it has one", changed)
	nets("two are", "[192.0.2.0/30 198.51.100.0/24 10.9.0.2/32 10.9.0.3/32]")
	n.put(node("node2"), `{"addresses":["192.0.2.4"]}`).expect("an address that is not among them", changed)
	nets("one is", "[192.0.2.0/30 198.51.100.0/24 10.9.0.3/32]")
	n.put(epKey("web.blue-node3"), epValue("web.blue", "node2", "10.1.0.33")).expect("a container with the name of a node", "+endpoint web.blue-node3")
	n.put(policy, saying("", `"0.0.0.0/0"`)).expect("all", changed)
	nets("what is let in anyway is not told again", "[0.0.0.0/0]")
	n.put(policy, saying(`,"out":true`, `"192.0.2.0/24"`)).expect("what goes out", changed)
	nets("where pods may go is no node", "[192.0.2.0/24]")
	n.put(policy, saying(`,"out":true`, `"192.0.2.3/32","198.51.100.0/24"`)).expect("what goes out to a node", changed)
	nets("it is that node wherever pods reach it", "[192.0.2.3/32 198.51.100.0/24 10.9.0.3/32]")
	n.put(node("node3"), `{"addresses":["192.0.2.5","2001:db8::3"]}`).expect("another address", changed)
	nets("it is nobody's", "[192.0.2.3/32 198.51.100.0/24]")
	n.put(node("node3"), `{"addresses":["192.0.2.3","2001:db8::3"]}`).expect("its address again", changed)
	n.put(policy, saying("", `"2001:db8::/64"`)).expect("another version of IP", changed)
	nets("it says nothing about this one", "[2001:db8::/64]")
	n.put(policy, saying("", `"192.0.2.3/32"`)).expect("one node", changed)
	nets("it is let in", "[192.0.2.3/32 10.9.0.3/32]")
	n.put(policy, saying(`,"excepts":[{"net":"192.0.2.0/24","except":["10.9.0.0/28"]},{"net":"198.51.100.0/24","except":["10.9.0.0/28"]}]`, `"192.0.2.3/32"`)).expect("one without processes", changed)
	nets("what is taken out stays out", "[192.0.2.3/32]")
	n.put(policy, saying(`,"excepts":[{"net":"192.0.2.0/24","except":["10.9.0.0/28"]},{"net":"192.0.2.3/32"}]`, `"192.0.2.3/32"`)).expect("beside one without exceptions", changed)
	nets("another block lets in what one takes out", "[192.0.2.3/32 10.9.0.3/32]")
	n.put(policy, saying("", `"192.0.2.5/32"`)).expect("nobody", changed)
	n.put(policy, saying(`,"excepts":[{"net":"198.51.100.0/24","except":["10.9.0.0/28"]}]`, `"192.0.2.3/32"`)).expect("out of another network", changed)
	nets("which takes nothing from this one", "[192.0.2.3/32 10.9.0.3/32]")
	n.put(policy, saying(`,"excepts":[{"net":"0.0.0.0/0","except":["10.9.0.0/28","192.0.2.0/24"]}]`, `"192.0.2.3/32"`)).expect("out of one that does not name the node")
	nets("nor does that", "[192.0.2.3/32 10.9.0.3/32]")
	n.put(policy, saying("", `"192.0.2.3/32"`)).expect("one node again")
	n.put(vrfKey("red"), `{"vrf":2}`).put(netKey("web.red"), netValue("red", "")).put(mastercfg.K8sPodKey(me, "u2"), `{"uid":"u2","class":7,"classed":true}`).
		put(epKey("web.red-pod"), podEndpoint("web.red", me, "10.1.0.31", "u2")).step()
	nets("subjects of two tenants, of which one has no such address", "[192.0.2.3/32 10.9.0.3/32]")
	n.put(netKey("wide.red"), strings.NewReplacer("web", "wide", "10.1.0.", "10.9.0.").Replace(netValue("red", ""))).expect("a network of the other tenant", "+network wide.red", changed)
	nets("the address may be another's there", "[192.0.2.3/32]")
	n.del(epKey("web.red-pod")).step()
	nets("of one again", "[192.0.2.3/32 10.9.0.3/32]")
	n.del(netKey("contivh1.blue")).step()
	nets("their network is gone", "[192.0.2.3/32]")
}
