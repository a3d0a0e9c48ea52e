package pipeline

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// Classes of the example's endpoints.
const (
	classWeb1 uint16 = iota + 1
	classWeb2
	classDB1
	classDB2
)

const isolated = JudgesOut | IsolatesOut | JudgesIn | IsolatesIn

// classify gives the example's endpoints their classes, and those named their tiers.
func (c *cluster) classify(tiers map[string]Tiers) {
	for e, class := range map[string]uint16{web1.ID: classWeb1, web2.ID: classWeb2, db1.ID: classDB1, db2.ID: classDB2} {
		if p := c.pods[e]; p != nil {
			p.Class, p.Tiers = class, tiers[e]
		}
	}
}

// judge programs rules of tiers, always with a new epoch.
func (c *cluster) judge(tiers map[string]Tiers, rules ...TierRule) {
	c.t.Helper()
	c.judgeBeside(nil, tiers, rules...)
}

// judgeBeside is judge with rules of groups besides.
func (c *cluster) judgeBeside(groups []Rule, tiers map[string]Tiers, rules ...TierRule) {
	c.t.Helper()
	c.epoch++
	c.classify(tiers)
	objects := []Object{Epoch{Number: c.epoch}}
	for _, r := range groups {
		objects = append(objects, r)
	}
	for i, r := range rules {
		r.Number, r.ID = uint32(i+1), fmt.Sprint("r", i)
		objects = append(objects, r)
	}
	for _, n := range c.nodes {
		n.replace(c.t, c.wants(n, objects...).chosen())
	}
}

func allowing(out bool, subject uint16, change ...func(*TierRule)) TierRule {
	r := TierRule{Tier: PolicyTier, Out: out, Subjects: []uint16{subject}, AnyPeer: true}
	for _, c := range change {
		c(&r)
	}
	return r
}

func withPeers(classes ...uint16) func(*TierRule) {
	return func(r *TierRule) { r.AnyPeer, r.Peers = false, classes }
}

func anyPod(r *TierRule) { r.AnyPeer, r.AnyPod = false, true }

func withNets(nets ...netip.Prefix) func(*TierRule) {
	return func(r *TierRule) { r.AnyPeer, r.Nets = false, nets }
}

func servedBy(classes ...uint16) func(*TierRule) {
	return func(r *TierRule) { r.Serving = classes }
}

func withPorts(ports ...PortRange) func(*TierRule) {
	return func(r *TierRule) { r.Ports = ports }
}

func inTier(t Tier, rank uint16, v Verdict) func(*TierRule) {
	return func(r *TierRule) { r.Tier, r.Rank, r.Verdict = t, rank, v }
}

// A switch has one flow for a match and a priority. All policies for one subject must be in force at once: clauses
// of conjunctions are united, equal flows have equal effects.
func TestPoliciesAboutOneSubjectDoNotTakeEachOthersFlows(t *testing.T) {
	p, at := node1(), map[string]openflow.Flow{}
	for i, r := range []TierRule{
		allowing(false, classWeb1),
		allowing(false, classWeb1, withPorts(PortRange{6, 80, 80})),
		allowing(false, classWeb1, withPeers(classDB1)),
		allowing(false, classWeb1, withPeers(classDB1), withPorts(PortRange{6, 80, 80})),
		allowing(false, classWeb1, anyPod),
		allowing(false, classWeb1, anyPod, withPorts(PortRange{6, 80, 80})),
		allowing(false, classWeb1),
	} {
		r.Number, r.ID = uint32(i+1), fmt.Sprint("r", i)
		for _, f := range flowsOf(p, r, 0) {
			if other, taken := at[f.MatchKey()]; !taken {
				at[f.MatchKey()] = f
			} else if united, ok := Merge(other, f); ok {
				at[f.MatchKey()] = united
			} else if fmt.Sprint(other.Actions, other.Goto) != fmt.Sprint(f.Actions, f.Goto) {
				t.Errorf("one takes the place of the other:\n%s\n%s", other, f)
			}
		}
	}
}

func TestTiersJudgeConnections(t *testing.T) {
	c := startCluster(t, web1, web2, db1, db2)
	const sql, ssh = 5432, 22
	for _, server := range []Endpoint{web1, web2, db1, db2} {
		c.pod(server).serve(sql)
		c.pod(server).serve(ssh)
	}
	type attempt struct {
		from, to Endpoint
		port     uint16
		want     bool // for both IP families
	}
	in, out := map[string]Tiers{db2.ID: JudgesIn | IsolatesIn}, map[string]Tiers{web1.ID: JudgesOut | IsolatesOut}
	onSQL := withPorts(PortRange{openflow.ProtoTCP, sql, sql})
	judgedIn := map[string]Tiers{db2.ID: JudgesIn}
	for _, scene := range []struct {
		name  string
		tiers map[string]Tiers
		rules []TierRule
		tries []attempt
	}{
		{"nobody is isolated", nil, nil, []attempt{{web1, db2, ssh, true}}},
		{"isolated from all who come, not from whom it calls, nor from itself", in, nil, []attempt{
			{web1, db2, ssh, false}, {db1, db2, ssh, false}, {web2, db2, ssh, false}, {db2, web1, ssh, true}, {db2, web2, ssh, true}, {db2, db2, ssh, true}}},
		{"isolated from all whom it calls", out, nil, []attempt{
			{web1, db2, ssh, false}, {web1, db1, ssh, false}, {db2, web1, ssh, true}, {db1, web1, ssh, true}, {web1, web1, ssh, true}}},
		{"one class may come", in, []TierRule{allowing(false, classDB2, withPeers(classWeb1))}, []attempt{
			{web1, db2, ssh, true}, {web2, db2, ssh, false}, {db1, db2, ssh, false}}},
		{"all may come, to one port", in, []TierRule{allowing(false, classDB2, onSQL)}, []attempt{
			{web1, db2, sql, true}, {web2, db2, sql, true}, {web1, db2, ssh, false}}},
		{"two rules: one class to one port, or an address to any", in, []TierRule{
			allowing(false, classDB2, onSQL, withPeers(classWeb1)),
			allowing(false, classDB2, withNets(inet.Host(web2.IPv4), inet.Host(web2.IPv6))),
		}, []attempt{{web1, db2, sql, true}, {web1, db2, ssh, false}, {web2, db2, ssh, true}, {db1, db2, sql, false}}},
		{"an address may be called, if it is of a class that serves", out, []TierRule{
			allowing(true, classWeb1, withNets(inet.Host(db1.IPv4), inet.Host(db2.IPv4), inet.Host(db1.IPv6), inet.Host(db2.IPv6)), servedBy(classDB2)),
		}, []attempt{{web1, db2, ssh, true}, {web1, db1, ssh, false}}},
		{"a range of ports has borders", in, []TierRule{allowing(false, classDB2, withPorts(PortRange{openflow.ProtoTCP, 23, 5432}))}, []attempt{
			{web1, db2, ssh, false}, {web1, db2, sql, true}}},
		{"both ends must agree", map[string]Tiers{web1.ID: isolated, db2.ID: isolated}, []TierRule{
			allowing(true, classWeb1, withPeers(classDB2, classDB1)), allowing(false, classDB2, withPeers(classWeb2, classWeb1), onSQL),
		}, []attempt{{web1, db2, sql, true}, {web1, db2, ssh, false}, {web2, db2, sql, true}, {db2, web1, sql, false}, {web1, web2, sql, false}, {web1, db1, ssh, true}}},
		{"of the first tier the first rule that fits counts", judgedIn, []TierRule{
			allowing(false, classDB2, inTier(FirstTier, 1, Deny), withPeers(classWeb1, classWeb2)),
			allowing(false, classDB2, inTier(FirstTier, 0, Accept), withPeers(classWeb1), onSQL),
		}, []attempt{{web1, db2, sql, true}, {web1, db2, ssh, false}, {web2, db2, sql, false}, {db1, db2, ssh, true}}},
		{"what the first tier accepts no policy denies; what it passes on they judge", in, []TierRule{
			allowing(false, classDB2, inTier(FirstTier, 0, Pass), withPeers(classWeb2)),
			allowing(false, classDB2, inTier(FirstTier, 1, Accept)),
		}, []attempt{{web1, db2, ssh, true}, {web2, db2, ssh, false}}},
		{"the last tier judges whom policies do not isolate", judgedIn, []TierRule{
			allowing(false, classDB2, inTier(LastTier, 5, Deny)),
			allowing(false, classDB2, inTier(LastTier, 2, Pass), withPeers(classWeb1)),
		}, []attempt{{web1, db2, ssh, true}, {web2, db2, ssh, false}}},
		{"and not whom they isolate", in, []TierRule{
			allowing(false, classDB2, inTier(LastTier, 5, Deny)), allowing(false, classDB2, withPeers(classWeb1)),
		}, []attempt{{web1, db2, ssh, true}, {web2, db2, ssh, false}}},
	} {
		t.Run(scene.name, func(t *testing.T) {
			c.judge(scene.tiers, scene.rules...)
			var all sync.WaitGroup
			for _, try := range scene.tries {
				for _, a := range []netip.Addr{try.to.IPv4, try.to.IPv6} {
					all.Go(func() {
						if got := c.pod(try.from).connects(a, try.port, try.want); got != try.want {
							t.Errorf("%s connects to %s at %s: %v, want %v", try.from.ID, try.to.ID, netip.AddrPortFrom(a, try.port), got, try.want)
						}
					})
				}
			}
			all.Wait()
		})
	}
}

// Any pod means any endpoint with a class, whatever its bits; such a rule does not match others. There may be
// several such rules, and rules for classes beside them.
func TestARuleAboutAnyPodFindsAllClasses(t *testing.T) {
	c := startCluster(t, web1, web2, db1, db2)
	const sql, ssh = 5432, 22
	for _, port := range []uint16{sql, ssh} {
		c.pod(db2).serve(port)
		c.pod(web2).serve(port)
	}
	port := func(number uint16) func(*TierRule) { return withPorts(PortRange{openflow.ProtoTCP, number, number}) }
	for name, tiers := range map[string]Tiers{"policies": JudgesIn | IsolatesIn | JudgesOut | IsolatesOut, "first tier": JudgesIn | JudgesOut} {
		c.epoch++
		c.classify(map[string]Tiers{db2.ID: tiers & (JudgesIn | IsolatesIn), web1.ID: tiers & (JudgesOut | IsolatesOut)})
		c.pod(web1).Class, c.pod(db1).Class, c.pod(web2).Class = 1<<15, 0x0a50, 0
		rules := []TierRule{
			allowing(false, classDB2, anyPod, port(sql)), allowing(false, classDB2, anyPod, withNets(inet.Host(web2.IPv4)), port(ssh)),
			allowing(false, classDB2, withPeers(1<<15), port(ssh)), allowing(true, 1<<15, anyPod)}
		if name == "first tier" {
			rules = []TierRule{allowing(false, classDB2, anyPod, port(sql), inTier(FirstTier, 3, Deny)), allowing(true, 1<<15, anyPod, port(ssh), inTier(FirstTier, 4, Deny))}
		}
		objects := []Object{Epoch{Number: c.epoch}}
		for i, r := range rules {
			r.Number, r.ID = uint32(i+1), fmt.Sprint("r", i)
			objects = append(objects, r)
		}
		for _, n := range c.nodes {
			n.replace(t, c.wants(n, objects...).chosen())
		}
		denies := name == "first tier"
		var all sync.WaitGroup
		for _, try := range []struct {
			from, to   Endpoint
			at         netip.Addr
			port       uint16
			isPod, net bool // whether a rule for any pod, or one for its address, matches the peer
		}{
			{web1, db2, db2.IPv4, sql, true, false}, {db1, db2, db2.IPv6, sql, true, false}, {web2, db2, db2.IPv4, sql, false, false},
			{web2, db2, db2.IPv4, ssh, false, true}, {web2, db2, db2.IPv6, ssh, false, false},
			{web1, web2, web2.IPv4, ssh, false, false}, {web1, db2, db2.IPv6, ssh, true, false},
		} {
			all.Go(func() {
				want := try.isPod || try.net
				if denies {
					want = !try.isPod
				}
				if got := c.pod(try.from).connects(try.at, try.port, want); got != want {
					t.Errorf("%s: %s connects to %s: %v, want %v", name, try.from.ID, netip.AddrPortFrom(try.at, try.port), got, want)
				}
			})
		}
		all.Wait()
	}
}

func TestPortsOfARangeAreFoundByAtMostThirtyMatches(t *testing.T) {
	most := 0
	for _, r := range [][2]uint16{{0, 65535}, {1, 65534}, {80, 80}, {1, 1}, {65535, 65535}, {1024, 65535}, {23, 5432}, {8080, 8090}} {
		runs := masked(r[0], r[1])
		most = max(most, len(runs))
		for port := range uint32(65536) {
			fits := func(x run) bool { return uint16(port)&x.mask == x.value }
			if n := len(slices.DeleteFunc(slices.Clone(runs), func(x run) bool { return !fits(x) })); (n == 1) != (uint16(port) >= r[0] && uint16(port) <= r[1]) || n > 1 {
				t.Fatalf("%d..%d: port %d fits %d of %v", r[0], r[1], port, n, runs)
			}
		}
	}
	if most != 30 {
		t.Errorf("at most %d", most)
	}
}
