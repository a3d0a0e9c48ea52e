package agent

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// outskirts is a border that records its calls.
type outskirts struct {
	mu     sync.Mutex
	wanted *BGP
}

func (o *outskirts) Configure(wanted *BGP) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wanted = wanted
}

// Inspect returns the wanted router.
func (o *outskirts) Inspect() *mastercfg.NodeBgp {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wanted == nil {
		return nil
	}
	return &mastercfg.NodeBgp{Announced: []string{o.wanted.Link.String()}}
}

// A node that cannot be the router that the store wants reports why: netctl check shows it.
func TestWhyANodeSpeaksNoBGPIsTold(t *testing.T) {
	store := newEtcd(t).start()
	store.put(blueState...)
	bgpKey := mastercfg.BgpPrefix + me
	bridged := strings.Replace(globalValue, "routing", "bridge", 1)
	a, inland := startAgent(t, store.db, newRecorder(), func(c *Config) { c.Border = &outskirts{} }), startAgent(t, store.db, newRecorder())
	says := func(a *running, what, want string) {
		t.Helper()
		eventually(t, what, func() error {
			got := "nothing"
			if view := a.InspectBGP(); view != nil {
				got = fmt.Sprint(view.Announced, view.Problem)
			}
			if got != want {
				return fmt.Errorf("BGP %q, want %q", got, want)
			}
			return nil
		})
	}
	a.awaitReady(t)
	inland.awaitReady(t)
	says(a, "no router is wanted", "nothing")
	says(inland, "none of a node without an uplink", "nothing")
	store.put(bgpKey, `{"id":"`+me+`","hostname":"`+me+`","router-ip":"192.0.2.9/24","as":"65001"}`)
	says(a, "a router", "[192.0.2.9/24]")
	says(inland, "no uplink", "[]the node is to speak BGP, and has no uplink: start netplugin with --vlan-uplinks")
	store.put(mastercfg.GlobalConfigKey, bridged)
	says(a, "networks are bridged", "[]the node is to speak BGP, and the forwarding mode of the cluster is bridge: there is nothing to route to")
	store.put(mastercfg.GlobalConfigKey, globalValue)
	says(a, "networks are routed", "[192.0.2.9/24]")
	store.del(bgpKey)
	says(a, "no router is wanted any more", "nothing")
	says(inland, "nor of a node without an uplink", "nothing")
	store.put(bgpKey, `{"id":"`+me+`","hostname":"`+me+`","router-ip":"192.0.2.9","as":"65001"}`)
	says(a, "a record that cannot be used", "[]the node is to speak BGP, and cannot: bgp of host node1: routerip \"192.0.2.9\": want the IPv4 address of one host with a length, such as 192.0.2.11/24")
	store.put(bgpKey, `{"id":"`+me+`","hostname":"`+me+`","router-ip":"192.0.2.9/24","as":"65001"}`)
	says(a, "one that can", "[192.0.2.9/24]")
	store.put(bgpKey, "{")
	says(a, "a damaged record", "[]the node is to speak BGP, and cannot: bgp of host node1: unexpected end of JSON input")
	store.del(bgpKey)
	says(a, "no record", "nothing")
}
