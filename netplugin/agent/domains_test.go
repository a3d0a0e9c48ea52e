package agent

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/domains"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

const namesPolicy = `{"spec":"a","rules":[{"tier":0,"out":true,"verdict":"accept","subjects":[7],"nets":["203.0.113.0/24"],"names":["Shop.Example.","*.kubernetes.io"]}]}`

// A rule with names gets the addresses that the endpoints of this node have received, in this run of the agent or
// the previous one, until they expire.
func TestARuleHasTheAddressesOfItsNames(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	policy := mastercfg.K8sPolicyPrefix + "clusternetworkpolicy/names"
	rule := pipeline.Key{Kind: pipeline.KindTierRule, ID: "clusternetworkpolicy/names#0"}
	store.put(append(blueState, mastercfg.K8sEpochKey, `{"number":3}`, mastercfg.K8sClassKey(7), `{}`, mastercfg.K8sPodKey(me, "u1"), `{"uid":"u1","class":7,"classed":true}`,
		epKey("web.blue-pod"), podEndpoint("web.blue", me, "10.1.0.30", "u1"), policy, namesPolicy)...)
	file := filepath.Join(t.TempDir(), "names.json")
	start := func() *running {
		a := startAgent(t, store.db, driver, func(c *Config) { c.AnswersFile = file })
		a.awaitReady(t)
		return a
	}
	has := func(when string, want ...string) {
		t.Helper()
		var all []netip.Prefix
		for _, text := range append([]string{"203.0.113.0/24"}, want...) {
			all = append(all, netip.MustParsePrefix(text))
		}
		eventually(t, when, func() error {
			if r, ok := driver.object(rule).(pipeline.TierRule); !ok || !slices.Equal(r.Nets, all) {
				return errors.New("another rule")
			}
			return nil
		})
	}
	hear := func(a *running, name, address string) {
		a.HearAnswer(domains.Answer{Name: name, Addresses: []netip.Addr{netip.MustParseAddr(address)}})
	}
	a := start()
	has("nothing is heard")
	hear(a, "shop.example", "198.51.100.2")
	hear(a, "bank.example", "198.51.100.9")
	has("a name is heard", "198.51.100.2/32")
	hear(a, "www.kubernetes.io", "2001:db8::1")
	has("another is heard", "198.51.100.2/32", "2001:db8::1/128")
	eventually(t, "it is written down", func() error {
		if text, err := os.ReadFile(file); err != nil || !bytes.Contains(text, []byte("2001:db8::1")) {
			return fmt.Errorf("the file says %s, %w", text, err)
		}
		return nil
	})
	hear(a, "shop.example", "198.51.100.3")
	a.stop()

	driver = newRecorder()
	a = start()
	has("the next agent", "198.51.100.2/32", "198.51.100.3/32", "2001:db8::1/128")
	store.put(policy, `{"spec":"b","rules":[]}`)
	eventually(t, "the policy has no rule any more", func() error {
		if driver.object(rule) != nil {
			return errors.New("not yet")
		}
		return nil
	})
	store.put(policy, namesPolicy)
	has("it has one again", "198.51.100.2/32", "198.51.100.3/32", "2001:db8::1/128")
	a.ForgetAnswers(time.Now().Add(24 * time.Hour))
	has("they do not count any more")
	a.stop()
	driver = newRecorder()
	a = start()
	has("nor for the next agent")
	over := []netip.Prefix{netip.MustParsePrefix("198.51.100.2/32"), netip.MustParsePrefix("198.51.100.3/32"), netip.MustParsePrefix("2001:db8::1/128")}
	if r := driver.object(rule).(pipeline.TierRule); !slices.Equal(r.Begun, over) {
		t.Errorf("connections go on to %s, want %s", r.Begun, over)
	}
	a.ForgetAnswers(time.Now().Add(30 * 24 * time.Hour))
	eventually(t, "nothing is known of them", func() error {
		if r := driver.object(rule).(pipeline.TierRule); len(r.Begun) > 0 {
			return fmt.Errorf("connections go on to %s", r.Begun)
		}
		return nil
	})
}

// If the book cannot be saved, that is retried later, even without new answers.
func TestNamesThatCannotBeWrittenDownAreTriedAgain(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	policy := mastercfg.K8sPolicyPrefix + "clusternetworkpolicy/names"
	store.put(append(blueState, mastercfg.K8sEpochKey, `{"number":3}`, policy, namesPolicy)...)
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file in place of the directory
		t.Fatal(err)
	}
	file := filepath.Join(dir, "names.json")
	a := startAgent(t, store.db, driver, func(c *Config) { c.AnswersFile = file })
	a.awaitReady(t)
	a.HearAnswer(domains.Answer{Name: "shop.example", Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.2")}})
	a.writeAnswers()
	if err := errors.Join(os.Remove(dir), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is written down", func() error {
		a.ForgetAnswers(time.Now())
		_, err := os.Stat(file)
		return err
	})
}

// plans counts how often a driver gets a rule.
type plans struct {
	*recorder
	rule  pipeline.Key
	given int
}

func (p *plans) Update(c drivers.Change) {
	p.recorder.Update(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(c.Set, func(o pipeline.Object) bool { return o.Key() == p.rule }) {
		p.given++
	}
}

// Rules are not planned for each answer while an endpoint receives ever new addresses.
func TestRulesAreNotPlannedForEachAnswer(t *testing.T) {
	store := newEtcd(t).start()
	driver := &plans{recorder: newRecorder(), rule: pipeline.Key{Kind: pipeline.KindTierRule, ID: "clusternetworkpolicy/names#0"}}
	store.put(append(blueState, mastercfg.K8sEpochKey, `{"number":3}`, mastercfg.K8sClassKey(7), `{}`, mastercfg.K8sPodKey(me, "u1"), `{"uid":"u1","class":7,"classed":true}`,
		epKey("web.blue-pod"), podEndpoint("web.blue", me, "10.1.0.30", "u1"), mastercfg.K8sPolicyPrefix+"clusternetworkpolicy/names", namesPolicy)...)
	a := startAgent(t, store.db, driver)
	a.awaitReady(t)
	var last netip.Addr
	begun := time.Now()
	for i := 0; time.Since(begun) < 2*namesEvery; i++ {
		last = netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)})
		a.HearAnswer(domains.Answer{Name: "shop.example", Addresses: []netip.Addr{last}})
	}
	eventually(t, "the last is in the rule", func() error {
		if r, ok := driver.object(driver.rule).(pipeline.TierRule); !ok || !slices.Contains(r.Nets, netip.PrefixFrom(last, 32)) {
			return fmt.Errorf("it has %d networks, not %s", len(r.Nets), last)
		}
		return nil
	})
	driver.mu.Lock()
	defer driver.mu.Unlock()
	if most := 3 + int(time.Since(begun)/namesEvery); driver.given > most { // the first state, and one at each end
		t.Errorf("the rule is planned %d times, want %d at most", driver.given, most)
	}
}

// The answers of the name service are copied to the agent while there are rules with names.
func TestTheNameServiceIsOverheardWhileRulesHaveNames(t *testing.T) {
	n := kubeNode(t)
	other := "default/shop/web"
	dns := "default/kube-system/kube-dns"
	for _, id := range []string{dns, other} {
		n.put(mastercfg.K8sServicePrefix+id, `{"namespace":"x","name":"y","addresses":["10.96.0.10"],"ports":[{"protocol":"UDP","port":53}]}`)
	}
	overheard := func(when string, want bool) {
		t.Helper()
		n.step()
		for id, want := range map[string]bool{dns: want, other: false} {
			if o := n.planner.given[pipeline.Key{Kind: pipeline.KindService, ID: kubeID + id}]; o == nil || o.(pipeline.Service).Overheard != want {
				t.Errorf("%s: %s: %+v", when, id, o)
			}
		}
	}
	overheard("no policies", false)
	n.put(mastercfg.K8sPolicyPrefix+"clusternetworkpolicy/names", namesPolicy)
	overheard("a rule has names", true)
	n.put(mastercfg.K8sPolicyPrefix+"clusternetworkpolicy/more", namesPolicy)
	n.del(mastercfg.K8sPolicyPrefix + "clusternetworkpolicy/names")
	overheard("another has", true)
	n.del(mastercfg.K8sPolicyPrefix + "clusternetworkpolicy/more")
	overheard("none has", false)
	if left := n.cache.named; len(left.names)+len(left.users) != 0 {
		t.Errorf("left: %+v", left)
	}
}
