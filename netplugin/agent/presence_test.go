package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// crowded returns a cache with a tenant that has n endpoints on another node.
func crowded(n int) *cache {
	c := newCache(me, quiet)
	for i, pair := range [][2]string{{vrfKey("blue"), `{"vrf":1}`}, {netKey("web.blue"), netValue("blue", "")},
		{vtepKey("192.0.2.2"), vtepValue("node2", "192.0.2.2")}, {ruleKey(blueRule), ruleValue(blueRule, "deny")}} {
		c.apply(pair[0], []byte(pair[1]), int64(i+1))
	}
	for i := range n {
		c.apply(epKey(fmt.Sprintf("web.blue-r%d", i)), []byte(epValue("web.blue", "node2", fmt.Sprintf("10.1.%d.%d", 1+i/250, 1+i%250))), 1)
	}
	p := newPlanner()
	p.plan(c, everything) // nothing: the tenant is not on this node
	return c
}

func TestTheFirstEndpointOfATenantDoesNotWaitForThoseElsewhere(t *testing.T) {
	const elsewhere = 5000
	c, p := crowded(elsewhere), newPlanner()
	c.apply(epKey("web.blue-1"), []byte(epValue("web.blue", me, "10.1.0.2")), 1)
	first, _ := p.plan(c, 0)
	var got []string
	for _, object := range first.Set {
		got = append(got, string(object.Key().Kind)+" "+object.Key().ID)
	}
	if want := []string{"network web.blue", "endpoint web.blue-1", "rule " + blueRule}; !slices.Equal(got, want) {
		t.Errorf("first %q, want %q", got, want)
	}
	given, portions := 0, 0
	for len(c.tenants.backlog) > 0 {
		change, _ := p.plan(c, portion)
		if len(change.Set) > portion {
			t.Errorf("a portion of %d", len(change.Set))
		}
		given, portions = given+len(change.Set), portions+1
	}
	if given != elsewhere || portions != elsewhere/portion {
		t.Errorf("%d endpoints in %d portions", given, portions)
	}

	// A change of present objects is programmed as a whole, with its rules.
	c.apply(ruleKey(blueRule), nil, 2)
	c.apply(epKey("web.blue-r7"), []byte(epValue("web.blue", "node2", "10.1.200.7")), 2)
	if change, _ := p.plan(c, 0); len(change.Set) != 1 || len(change.Remove) != 1 {
		t.Errorf("set %v, remove %v", change.Set, change.Remove)
	}
}

func TestATenantLingersWhenItsLastEndpointGoes(t *testing.T) {
	c, p := crowded(10), newPlanner()
	c.tenants.linger = time.Minute
	local := []byte(epValue("web.blue", me, "10.1.0.2"))
	c.apply(epKey("web.blue-1"), local, 1)
	p.plan(c, everything)
	c.apply(epKey("web.blue-1"), nil, 2)
	if change, _ := p.plan(c, everything); len(change.Remove) != 1 {
		t.Errorf("with the endpoint go %v", change.Remove)
	}
	if next := c.expireTenants(time.Now()); next.IsZero() {
		t.Error("nobody is told when the tenant's time is over")
	}
	c.apply(epKey("web.blue-1"), local, 3)
	if change, _ := p.plan(c, everything); len(change.Set) != 1 {
		t.Errorf("with the next endpoint come %v", change.Set)
	}
	if next := c.expireTenants(time.Now().Add(time.Hour)); !next.IsZero() || !c.tenants.present("blue") {
		t.Error("a tenant with an endpoint leaves")
	}
	c.apply(epKey("web.blue-1"), nil, 4)
	p.plan(c, everything)
	c.expireTenants(time.Now().Add(time.Hour))
	if change, _ := p.plan(c, everything); len(change.Remove) != 12 || len(p.given) != 0 {
		t.Errorf("in the end go %d objects, %d stay", len(change.Remove), len(p.given))
	}
}

// Routed VLANs are one routing domain: an endpoint in any of them is reached by all others.
func TestAnEndpointInARoutedVLANHasThoseOfOtherTenantsProgrammed(t *testing.T) {
	vlan := func(tenant string) string { return strings.Replace(netValue(tenant, ""), "vxlan", "vlan", 1) }
	const redRule = "red:front:red:p:red:p:1:inRx"
	n := newNode(t)
	n.cache.uplink = true
	n.put(mastercfg.GlobalConfigKey, globalValue).put(vrfKey("blue"), `{"vrf":1}`).put(vrfKey("red"), `{"vrf":2}`).
		put(netKey("web.blue"), vlan("blue")).put(netKey("web.red"), vlan("red")).put(netKey("db.red"), netValue("red", "")).
		put(epKey("web.red-1"), epValue("web.red", "node2", "10.1.0.3")).put(ruleKey(redRule), ruleValue(redRule, "deny"))
	n.expect("nobody here")
	n.put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2"))
	n.expect("one here", "+network web.blue", "+network web.red", "+endpoint web.blue-1", "+endpoint web.red-1", "+rule "+redRule)
	n.put(epKey("web.red-2"), epValue("web.red", "node2", "10.1.0.4"))
	n.expect("one more elsewhere", "+endpoint web.red-2")
	n.del(netKey("web.red"))
	n.expect("without red's network", "-rule "+redRule, "-endpoint web.red-2", "-endpoint web.red-1", "-network web.red")
	n.put(netKey("web.red"), vlan("red"))
	n.expect("with it", "+network web.red", "+endpoint web.red-1", "+endpoint web.red-2", "+rule "+redRule)
	n.del(epKey("web.blue-1"))
	n.expect("nobody here any more", "-rule "+redRule, "-endpoint web.red-2", "-endpoint web.red-1", "-endpoint web.blue-1", "-network web.red", "-network web.blue")
}

// reluctant is a driver with a switch that never gets remote endpoints.
type reluctant struct {
	*recorder
	asked chan []pipeline.Key
}

func (r reluctant) Sync(ctx context.Context, keys ...pipeline.Key) error {
	r.mu.Lock()
	waits := len(keys) == 0 && r.replaced > 1
	for _, key := range keys {
		e, _ := r.objects[key].(pipeline.Endpoint)
		waits = waits || e.VTEP.IsValid()
	}
	r.mu.Unlock()
	if waits {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case r.asked <- keys:
	default:
	}
	return nil
}

func TestAnEndpointForwardsOnlyBehindItsRules(t *testing.T) {
	const policy = "networkpolicy/shop/p"
	store, driver := newEtcd(t).start(), reluctant{newRecorder(), make(chan []pipeline.Key, 100)}
	store.put(append(blueState, mastercfg.K8sClassKey(7), `{"judgesIn":true}`, mastercfg.K8sPodKey(me, "u1"), `{"uid":"u1","class":7,"classed":true}`,
		mastercfg.K8sPolicyPrefix+policy, `{"spec":"a","rules":[{"tier":0,"verdict":"deny","subjects":[7],"anyPeer":true}]}`)...)
	store.del(epKey("web.blue-1"))
	a := startAgent(t, store.db, drivers.NetworkDriver(driver))
	a.awaitReady(t)
	revision := store.put(epKey("web.blue-1"), podEndpoint("web.blue", me, "10.1.0.2", "u1"))
	if _, err := a.PreparePort(t.Context(), "web.blue-1", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Attach(t.Context(), "web.blue-1", revision); err != nil {
		t.Fatal(err)
	}
	endpoint := pipeline.Key{Kind: pipeline.KindEndpoint, ID: "web.blue-1"}
	tierRule := pipeline.Key{Kind: pipeline.KindTierRule, ID: policy + "#0"}
	asked := map[pipeline.Key]bool{}
	for len(driver.asked) > 0 {
		for _, key := range <-driver.asked {
			if key == endpoint && !asked[tierRule] {
				t.Error("the endpoint overtakes what policies say of it")
			}
			asked[key] = true
		}
	}
	for _, key := range []pipeline.Key{endpoint, {Kind: pipeline.KindNetwork, ID: "web.blue"}, {Kind: pipeline.KindRule, ID: blueRule}} {
		if !asked[key] {
			t.Errorf("attached before the switch has %v", key)
		}
	}
}
