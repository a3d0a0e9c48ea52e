package master_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
)

// coolingPods assigns addresses to pods, at a time that the test sets.
type coolingPods struct {
	*world
	cooldown *master.Cooldown
	now      time.Time
	node     string // where pods are attached
}

func newCoolingPods(t testing.TB, subnet, ipv6 string) *coolingPods {
	d := &coolingPods{world: newWorld(t), now: time.Now(), node: "h1"}
	d.post("networks/default:pods", `{"tenantName":"default","networkName":"pods","encap":"vxlan","subnet":"`+subnet+`","ipv6Subnet":"`+ipv6+`"}`)
	d.forget()
	return d
}

// forget is what another leader remembers: nothing.
func (d *coolingPods) forget() { d.cooldown = master.NewCooldown(func() time.Time { return d.now }) }

// succeed has another leader continue with the store's content. The former term has another lock, so that it need
// not end.
func (d *coolingPods) succeed() {
	d.Helper()
	term, err := d.db.Campaign(d.Context(), objdb.CampaignConfig{Lock: mastercfg.LeaderLock + "/next", Value: "127.0.0.1:2", TTL: time.Minute})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		if err := term.Resign(context.Background()); err != nil {
			d.Error(err)
		}
	})
	if d.ledger, err = master.Open(d.Context(), term, nil, nil); err != nil {
		d.Fatal(err)
	}
	d.forget()
}

// add attaches a pod's container, and returns its address.
func (d *coolingPods) add(container, uid string) string {
	d.Helper()
	return d.addTo("", container, uid)
}

// addTo attaches it to a group.
func (d *coolingPods) addTo(group, container, uid string) string {
	d.Helper()
	var ep mastercfg.CfgEndpointState
	_, err := d.ledger.Update(d.Context(), func(tx *ledger.Tx) (err error) {
		ep, err = d.cooldown.CreateEndpoint(tx, &mastercfg.CreateEndpointRequest{TenantName: "default", NetworkName: "pods", PodUID: uid,
			ConfigEP: mastercfg.ConfigEP{Container: container, Host: d.node, ServiceName: group}})
		return err
	})
	if err != nil {
		return err.Error()
	}
	d.cooldown.Given(&ep)
	return ep.IPAddress + ep.IPv6Address
}

func (d *coolingPods) remove(container string) {
	d.Helper()
	d.update(func(tx *ledger.Tx) error {
		ep, err := master.DeleteEndpoint(tx, "pods.default-"+container)
		d.cooldown.Freed(&ep)
		return err
	})
}

func (d *coolingPods) want(what, got, want string) {
	d.Helper()
	if got != want {
		d.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestAddressesOfPodsCoolDownWhileOthersAreFree(t *testing.T) {
	d := newCoolingPods(t, "10.1.0.0/29", "")
	for n := 1; n <= 3; n++ {
		d.want("new", d.add(fmt.Sprint("c", n), fmt.Sprint("u", n)), fmt.Sprint("10.1.0.", n))
	}
	d.remove("c1")
	d.now = d.now.Add(20 * time.Second)
	d.remove("c2")
	d.want("others are free", d.add("c4", "u4"), "10.1.0.4")
	d.want("others are free", d.add("c5", "u5"), "10.1.0.5")
	d.want("others are free", d.add("c6", "u6"), "10.1.0.6")
	d.now = d.now.Add(39 * time.Second)
	d.want("none is, so it is the one that was freed first", d.add("c7", "u7"), "10.1.0.1")
	d.remove("c7")
	d.now = d.now.Add(21 * time.Second)
	d.want("its cooldown is over", d.add("c8", "u8"), "10.1.0.2")
	d.want("no other", d.add("c9", "u9"), "10.1.0.1")
	d.want("nothing is left", d.add("c10", "u10"), "auto allocation failed - address exhaustion in subnet 10.1.0.0/29")
}

func TestTheNextAttemptOfAPodHasItsAddressesAgain(t *testing.T) {
	d := newCoolingPods(t, "10.1.0.0/16", "2001:db8::/64")
	d.want("first", d.add("a", "u1"), "10.1.0.12001:db8::1")
	d.remove("a")
	d.want("another pod", d.add("b", "u2"), "10.1.0.22001:db8::2")
	d.want("next attempt", d.add("c", "u1"), "10.1.0.12001:db8::1")
	d.want("beside it", d.add("d", "u1"), "10.1.0.32001:db8::3")
	d.remove("c")
	d.now = d.now.Add(time.Hour)
	d.want("long after", d.add("e", "u1"), "10.1.0.42001:db8::4")
}

// Static pods of equal manifests have the same UID on all nodes.
func TestANextAttemptOnAnotherNodeIsAnotherPod(t *testing.T) {
	d := newCoolingPods(t, "10.1.0.0/16", "")
	d.want("first", d.add("a", "static"), "10.1.0.1")
	d.remove("a")
	d.node = "h2"
	d.want("another node's", d.add("b", "static"), "10.1.0.2")
	d.node = "h1"
	d.want("next attempt", d.add("c", "static"), "10.1.0.1")
}

// Addresses that were allocated meanwhile without an endpoint are in use.
func TestTheNextAttemptOfAPodTakesNoAddressThatIsHeld(t *testing.T) {
	d := newCoolingPods(t, "10.1.0.0/16", "2001:db8::/126")
	d.want("first", d.add("a", "u1"), "10.1.0.12001:db8::1")
	d.remove("a")
	for _, pool := range []string{"", "2001:db8::/126", "2001:db8::/126", "2001:db8::/126"} { // three, and the first again
		d.update(func(tx *ledger.Tx) error {
			_, err := master.AllocAddress(tx, &mastercfg.AllocAddressRequest{NetworkID: "pods.default", AddressPool: pool}, false)
			return err
		})
	}
	d.update(func(tx *ledger.Tx) error {
		return master.ReleaseAddress(tx, &mastercfg.ReleaseAddressRequest{NetworkID: "pods.default", IPv4Address: "2001:db8::2"})
	})
	d.want("next attempt", d.add("b", "u1"), "10.1.0.22001:db8::2")
}

// What another pod asks for by name is kept for it, as soon as it has its node.
func TestTheNextAttemptOfAPodTakesNoAddressThatAnotherAsksFor(t *testing.T) {
	d := newCoolingPods(t, "10.1.0.0/16", "")
	d.want("first", d.add("a", "u1"), "10.1.0.1")
	d.remove("a")
	d.update(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.K8sPodKey("h2", "u2"), mastercfg.K8sPod{UID: "u2", Tenant: "default", Network: "pods", IPv4: netip.MustParseAddr("10.1.0.1")})
	})
	d.want("next attempt", d.add("b", "u1"), "10.1.0.2")
}

func TestTheNextLeaderGoesOnBehindWhatWasGivenLast(t *testing.T) {
	d := newCoolingPods(t, "10.1.0.0/16", "")
	for n := range 3 {
		d.add(fmt.Sprint("c", n), fmt.Sprint("u", n))
	}
	d.remove("c0")
	d.remove("c2")
	d.succeed()
	d.want("new leader", d.add("x", "x"), "10.1.0.4")
	if got := d.add("no pod", ""); got != "10.1.0.1" {
		t.Errorf("who is no pod gets %s, want the lowest", got)
	}
}

// Counters recorded for the next leader are deleted with their networks and groups.
func TestCountersOfAddressesGoWithTheirNetworksAndGroups(t *testing.T) {
	d := newCoolingPods(t, "10.1.0.0/16", "")
	d.post("endpointGroups/default:web", `{"tenantName":"default","groupName":"web","networkName":"pods","ipPool":"10.1.7.1-10.1.7.9"}`)
	counters := func() (keys []string) {
		kvs, _, err := d.db.List(t.Context(), mastercfg.IPv4CounterPrefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range kvs {
			keys = append(keys, kv.Key[len(mastercfg.IPv4CounterPrefix):])
		}
		return keys
	}
	d.want("in the group", d.addTo("web", "a", "u1"), "10.1.7.1")
	d.want("in the network", d.add("b", "u2"), "10.1.0.1")
	d.want("counters", fmt.Sprint(counters()), "[pods.default web:default]")
	d.remove("a")
	d.remove("b")
	d.forget()
	d.want("another leader, in the group", d.addTo("web", "c", "u3"), "10.1.7.2")
	d.remove("c")
	d.request("DELETE", "endpointGroups/default:web", "")
	d.want("counters without the group", fmt.Sprint(counters()), "[pods.default]")
	d.request("DELETE", "networks/default:pods", "")
	d.want("counters without the network", fmt.Sprint(counters()), "[]")
}
