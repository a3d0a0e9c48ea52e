package agent

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// The address of a removed machine is denied to endpoints for a day: later another machine, or a service, may have
// it.
func TestAddressesOfMachinesThatAreGoneAreForgotten(t *testing.T) {
	n, now := newNode(t), time.Now()
	entry := agentPrefix + "192.0.2.9:9002"
	n.put(entry, `{"HostAddr":"192.0.2.9","Addresses":["198.51.100.9"]}`).put(vtepKey("192.0.2.8"), vtepValue("node8", "192.0.2.8"))
	n.cache.recallPeer("node7", netip.MustParseAddr("192.0.2.7"))
	expect := func(what string, next time.Time, want ...string) {
		t.Helper()
		got := n.cache.ageNodes(now)
		var list []string
		for _, a := range n.cache.nodes.list() {
			list = append(list, a.String())
		}
		if !got.Equal(next) || !slices.Equal(list, want) {
			t.Errorf("%s: next %s, want %s; %q, want %q", what, got, next, list, want)
		}
	}
	all := []string{"192.0.2.7", "192.0.2.8", "192.0.2.9", "198.51.100.9"}
	expect("two are registered", now.Add(nodeGrace), all...)
	now = now.Add(time.Hour)
	n.del(entry, vtepKey("192.0.2.8"))
	expect("nobody is", now.Add(nodeGrace-time.Hour), all...)
	now = now.Add(nodeGrace - time.Hour)
	n.put(entry, `{"HostAddr":"192.0.2.9"}`)
	n.cache.hostDirty = false
	expect("a day after the first", now.Add(time.Hour), "192.0.2.8", "192.0.2.9")
	if !n.cache.hostDirty {
		t.Error("the host is not told")
	}
	now = now.Add(nodeGrace)
	expect("a day after all", time.Time{}, "192.0.2.9")
	n.put(vtepKey("192.0.2.8"), vtepValue("node8", "192.0.2.8")).put(epKey("web.blue-8"), epValue("web.blue", "node8", "10.1.0.8")).del(vtepKey("192.0.2.8"))
	expect("its agent has gone, its endpoints have not", now.Add(nodeGrace), "192.0.2.8", "192.0.2.9")
	now = now.Add(2 * nodeGrace)
	expect("which are reached there", now.Add(nodeGrace), "192.0.2.8", "192.0.2.9")
}

// The next machine with the address of a removed one may belong to anyone.
func TestAPeerThatNobodyRegistersIsForgottenAfterItsGrace(t *testing.T) {
	n, now := newNode(t), time.Now()
	n.put(mastercfg.GlobalConfigKey, globalValue).put(vrfKey("blue"), `{"vrf":1}`).put(netKey("web.blue"), netValue("blue", "")).
		put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.1"))
	n.step()
	var ends []netip.Addr // as last sent to the host
	expect := func(what string, next time.Time, want ...string) {
		t.Helper()
		got := n.cache.agePeers(now)
		if told := n.cache.hostAccess().VTEPs; !slices.Equal(told, ends) {
			if ends = told; !n.cache.hostDirty {
				t.Errorf("%s: the host is not told that ends of tunnels are %v", what, ends)
			}
		}
		n.cache.hostDirty = false
		if lines := n.step(); !got.Equal(next) || !slices.Equal(lines, want) {
			t.Errorf("%s: next %s, want %s; %q, want %q", what, got, next, lines, want)
		}
	}
	never := time.Time{}
	vtep := "192.0.2.2"
	register := func() { n.put(vtepKey(vtep), vtepValue("node2", vtep)) }
	register()
	expect("registered", never, "+peer "+vtep)
	n.del(vtepKey(vtep))
	expect("its agent has gone", now.Add(peerGrace))
	now = now.Add(peerGrace - time.Second)
	expect("a moment before", now.Add(time.Second))
	register()
	now = now.Add(time.Hour)
	expect("registered again", never)
	n.put(epKey("web.blue-2"), epValue("web.blue", "node2", "10.1.0.2")).del(vtepKey(vtep))
	expect("its host has an endpoint", never, "+endpoint web.blue-2")
	n.del(epKey("web.blue-2"))
	expect("the last endpoint has gone", now.Add(peerGrace), "-endpoint web.blue-2")
	now = now.Add(peerGrace)
	expect("forgotten", never, "-peer "+vtep)
	n.put(vtepKey(vtep), vtepValue("node3", vtep))
	expect("another machine has the address", never, "+peer "+vtep)
	n.put(vtepKey(vtep), vtepValue("node3", "192.0.2.3"))
	expect("its address has changed", now.Add(peerGrace), "+peer 192.0.2.3")
	now = now.Add(peerGrace)
	expect("the former one is forgotten", never, "-peer "+vtep)
	if _, known := n.cache.nodes.peers[netip.MustParseAddr("192.0.2.3")]; !known {
		t.Error("one that is in use is forgotten")
	}
	if !slices.Equal(ends, []netip.Addr{netip.MustParseAddr("192.0.2.3")}) {
		t.Errorf("the host knows the ends of tunnels %v", ends)
	}
}
