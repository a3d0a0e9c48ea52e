package agent

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// The next machine with the address of one that has gone may be anybody's.
func TestAPeerThatNobodyRegistersIsForgottenAfterItsGrace(t *testing.T) {
	n, now := newNode(t), time.Now()
	n.put(mastercfg.GlobalConfigKey, globalValue).put(vrfKey("blue"), `{"vrf":1}`).put(netKey("web.blue"), netValue("blue", "")).
		put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.1"))
	n.step()
	expect := func(what string, next time.Time, want ...string) {
		t.Helper()
		got := n.cache.agePeers(now)
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
}
