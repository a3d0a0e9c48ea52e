package agent

import (
	"fmt"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// In bridged networks a node has rules about the pods of others as well, for what they flood. Whom rules about nodes let in is
// up to the pods of this node: only these are reached from the addresses of other nodes.
func TestPodsOfOtherNodesDoNotDecideWhichNodesARuleLetsIn(t *testing.T) {
	const rule, changed = "networkpolicy/shop/p#0", "+tier rule networkpolicy/shop/p#0"
	n := blueHere(t).
		put(mastercfg.GlobalConfigKey, `{"fwd-mode":"bridge"}`).
		put(netKey("contivh1.blue"), infraValue("blue")).
		put(vrfKey("red"), `{"vrf":2}`).
		put(netKey("web.red"), `{"tenant":"red","pktTagType":"vxlan","pktTag":2,"extPktTag":12,"subnetIP":"10.9.0.0","subnetLen":16}`).
		put(mastercfg.K8sEpochKey, `{"number":3}`).
		put(mastercfg.K8sClassKey(7), `{"judgesIn":true,"isolatesIn":true}`).
		put(mastercfg.K8sPodKey(me, "u1"), `{"uid":"u1","class":7,"classed":true}`).
		put(epKey("web.blue-pod"), podEndpoint("web.blue", me, "10.1.0.30", "u1")).
		put(epKey("contivh1.blue-node2"), epValue("contivh1.blue", "node2", "10.9.0.2")).
		put(mastercfg.K8sNodePrefix+"node2", `{"addresses":["192.0.2.2"]}`).
		put(mastercfg.K8sPolicyPrefix+"networkpolicy/shop/p", `{"spec":"a","rules":[{"tier":1,"verdict":"accept","subjects":[7],"nets":["192.0.2.2/32"]}]}`)
	n.step()
	nets := func(when, want string) {
		t.Helper()
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindTierRule, ID: rule})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if got := fmt.Sprint(o.(pipeline.TierRule).Nets); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	nets("one tenant", "[192.0.2.2/32 10.9.0.2/32]")
	pod := func(host string) {
		n.put(mastercfg.K8sPodKey(host, "u2"), `{"uid":"u2","class":7,"classed":true}`).put(epKey("web.red-pod"), podEndpoint("web.red", host, "10.9.0.31", "u2"))
	}
	pod("node3")
	n.expect("a pod of another tenant, on another node")
	nets("it is there", "[192.0.2.2/32 10.9.0.2/32]")
	pod(me)
	n.expect("it is here", "+network web.red", "+endpoint web.red-pod", "+flood set web.red", changed)
	nets("the address may be another's", "[192.0.2.2/32]")
	pod("node3")
	n.expect("it is there again", "-flood set web.red", "-endpoint web.red-pod", "-network web.red", changed)
	nets("it has left", "[192.0.2.2/32 10.9.0.2/32]")
}

// BenchmarkClassesOfPodsOfOtherNodes measures what the planner does about a class and its rules, with 10 and with 10,000
// pods of the class on another node: in mode routing it takes the same time.
func BenchmarkClassesOfPodsOfOtherNodes(b *testing.B) {
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("%d pods", count), func(b *testing.B) {
			n := blueHere(b).put(netKey("contivh1.blue"), infraValue("blue")).
				put(mastercfg.K8sPodKey(me, "u1"), `{"uid":"u1","class":7,"classed":true}`).
				put(epKey("web.blue-pod"), podEndpoint("web.blue", me, "10.1.0.30", "u1"))
			for i := range count {
				uid := fmt.Sprint("far", i)
				n.put(fmt.Sprint(mastercfg.K8sPolicyPrefix, "networkpolicy/shop/p", i), `{"spec":"a","rules":[{"tier":1,"verdict":"accept","subjects":[7],"nets":["192.0.2.2/32"]}]}`).
					put(mastercfg.K8sPodKey("node2", uid), `{"uid":"`+uid+`","class":7,"classed":true}`).
					put(epKey("web.blue-"+uid), podEndpoint("web.blue", "node2", fmt.Sprintf("10.1.%d.%d", 1+i/250, 1+i%250), uid))
			}
			n.step()
			c, number, far := n.cache, uint16(7), n.cache.endpoints["web.blue-far0"].podID()
			for b.Loop() {
				c.infraNetworksOf([]uint16{7})
				c.markClass(7)
				number = 15 - number // 7 or 8
				c.setPodClass(far, podClass{number, true})
			}
		})
	}
}
