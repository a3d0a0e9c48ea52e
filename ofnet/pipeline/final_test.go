package pipeline

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

const (
	finalSQL uint16 = 5432
	finalSSH uint16 = 22
)

// ending returns a rule of a group for a TCP port that is final for what it allows.
func ending(in Ends, priority int, src, dst, port uint16, change ...func(*Rule)) Rule {
	r := Rule{Priority: priority, SrcGroup: src, DstGroup: dst, Protocol: openflow.ProtoTCP, DstPort: port, Allow: true, Ends: in}
	for _, c := range change {
		c(&r)
	}
	return r
}

func denying(r *Rule) { r.Allow = false }

func asEver(r *Rule) { r.Ends = EndsNone }

// Isolated endpoints, on one node and on two. web1 and db1 are on the first node, web2 and db2 on the second; webs
// are in group front, dbs in group store.
func TestWhatTheOwnGroupAllowsFinallyNoTierIsAskedAbout(t *testing.T) {
	c := startCluster(t, web1, web2, db1, db2)
	for _, server := range []Endpoint{web1, web2, db1, db2} {
		c.pod(server).serve(finalSQL)
		c.pod(server).serve(finalSSH)
	}
	const out, in = JudgesOut | IsolatesOut, JudgesIn | IsolatesIn
	dbsIn := map[string]Tiers{db1.ID: in, db2.ID: in}
	websOut := map[string]Tiers{web1.ID: out, web2.ID: out}
	bothWays := map[string]Tiers{web1.ID: out, web2.ID: out, db1.ID: in, db2.ID: in}
	sqlIn := ending(EndsIn, 10, front, store, finalSQL)
	sqlOut := ending(EndsOut, 10, front, store, finalSQL)
	of := func(prefixes ...netip.Prefix) func(*Rule) {
		return func(r *Rule) { r.Src, r.Src6 = prefixes[0], prefixes[1] }
	}
	type attempt struct {
		from, to Endpoint
		port     uint16
		want     bool // for both IP families
	}
	sql := func(want bool) []attempt {
		return []attempt{{web1, db1, finalSQL, want}, {web1, db2, finalSQL, want}, {web2, db1, finalSQL, want}, {web2, db2, finalSQL, want}}
	}
	for _, scene := range []struct {
		name   string
		tiers  map[string]Tiers
		groups []Rule
		rules  []TierRule
		tries  []attempt
	}{
		{"not final", dbsIn, []Rule{ending(EndsIn, 10, front, store, finalSQL, asEver)}, nil, sql(false)},
		{"final", dbsIn, []Rule{sqlIn}, nil, append(sql(true), []attempt{{web1, db2, finalSSH, false}, {web1, db1, finalSSH, false}, {db1, db2, finalSQL, false}}...)},
		{"no rule of the group is about it, and policies allow it", dbsIn, []Rule{sqlIn}, []TierRule{allowing(false, classDB2, withPeers(classDB1))}, []attempt{{db1, db2, finalSSH, true}, {web1, db2, finalSSH, false}}},
		{"the first tier denies", map[string]Tiers{db1.ID: JudgesIn, db2.ID: JudgesIn}, []Rule{sqlIn}, []TierRule{allowing(false, classDB1, inTier(FirstTier, 0, Deny)), allowing(false, classDB2, inTier(FirstTier, 0, Deny))},
			append(sql(true), attempt{web1, db2, finalSSH, false})},
		{"the last tier denies", map[string]Tiers{db2.ID: JudgesIn}, []Rule{sqlIn}, []TierRule{allowing(false, classDB2, inTier(LastTier, 0, Deny))},
			[]attempt{{web1, db2, finalSQL, true}, {web2, db2, finalSQL, true}, {web1, db2, finalSSH, false}}},
		{"what is sent", websOut, []Rule{sqlOut}, nil, append(sql(true), []attempt{{web1, db2, finalSSH, false}, {web1, web2, finalSQL, false}, {db2, web1, finalSSH, true}}...)},
		{"each direction by rules of its own: in", bothWays, []Rule{sqlIn}, nil, sql(false)},
		{"out", bothWays, []Rule{sqlOut}, nil, sql(false)},
		{"both", bothWays, []Rule{sqlIn, sqlOut}, nil, sql(true)},
		{"out, and a policy in", bothWays, []Rule{sqlOut}, []TierRule{allowing(false, classDB2, withPeers(classWeb1))}, []attempt{{web1, db2, finalSQL, true}, {web2, db2, finalSQL, false}}},
		{"the other end's tenant is not final", bothWays, []Rule{sqlOut, ending(EndsIn, 11, front, store, finalSQL, asEver)}, nil, sql(false)},
		{"a higher rule of the group denies, and one of the other end lets it pass", dbsIn,
			[]Rule{ending(EndsIn, 1, 0, store, 0), ending(EndsIn, 10, front, store, finalSQL, denying), ending(EndsOut, 20, front, 0, finalSQL)}, nil,
			append(sql(false), []attempt{{web1, db2, finalSSH, true}, {web2, db2, finalSSH, true}}...)},
		{"and policies do", dbsIn,
			[]Rule{ending(EndsIn, 1, 0, store, 0), ending(EndsIn, 10, front, store, finalSQL, denying), ending(EndsOut, 20, front, 0, finalSQL)},
			[]TierRule{allowing(false, classDB1), allowing(false, classDB2)}, sql(true)},
		{"the sender's group denies, the receiver's lets it pass, and policies allow to send it", bothWays,
			[]Rule{ending(EndsOut, 5, front, store, finalSQL, denying), sqlIn}, []TierRule{allowing(true, classWeb1), allowing(true, classWeb2)}, sql(true)},
		{"as high a rule denies", dbsIn, []Rule{sqlIn, ending(EndsIn, 10, front, store, finalSQL, denying)}, []TierRule{allowing(false, classDB2)}, sql(false)},
		{"addresses", dbsIn, []Rule{ending(EndsIn, 10, 0, store, finalSQL, of(inet.Host(web1.IPv4), inet.Host(web1.IPv6)))}, nil,
			[]attempt{{web1, db1, finalSQL, true}, {web1, db2, finalSQL, true}, {web2, db1, finalSQL, false}, {web2, db2, finalSQL, false}, {web1, db2, finalSSH, false}}},
		{"any protocol", dbsIn, []Rule{ending(EndsIn, 10, front, store, 0, func(r *Rule) { r.Protocol = 0 })}, nil, append(sql(true), []attempt{{web1, db2, finalSSH, true}, {db1, db2, finalSSH, false}}...)},
		{"first packets of connections of TCP", dbsIn, []Rule{ending(EndsIn, 10, front, store, 0, func(r *Rule) { r.TCPFlags = "syn,!ack" })}, nil, append(sql(true), attempt{db1, db2, finalSSH, false})},
		{"other packets of TCP are about no connection", dbsIn, []Rule{ending(EndsIn, 10, front, store, 0, func(r *Rule) { r.TCPFlags = "ack" })}, nil, sql(false)},
		{"nobody is isolated", nil, []Rule{sqlIn, sqlOut}, nil, append(sql(true), []attempt{{web1, db2, finalSSH, true}, {db1, web2, finalSSH, true}}...)},
	} {
		t.Run(scene.name, func(t *testing.T) {
			for i := range scene.groups {
				scene.groups[i].ID = string(rune('a' + i))
			}
			c.judgeBeside(scene.groups, scene.tiers, scene.rules...)
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

// A rule that does not match the first packet of a connection cannot decide about the connection.
func TestOnlyRulesAboutTheBeginningOfAConnectionEndItsJudgement(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Rule)
		want   bool
	}{
		"of the group":           {func(*Rule) {}, true},
		"about a first packet":   {func(r *Rule) { r.TCPFlags = "syn,!ack" }, true},
		"about answers":          {func(r *Rule) { r.SrcPort = 80 }, false},
		"about another packet":   {func(r *Rule) { r.TCPFlags = "ack" }, false},
		"about all senders":      {func(r *Rule) { r.SrcGroup = 0 }, false},
		"of the receiver's":      {func(r *Rule) { r.Ends = EndsIn }, true},
		"about all receivers":    {func(r *Rule) { r.Ends, r.DstGroup = EndsIn, 0 }, false},
		"of a tenant as it was ": {asEver, false},
	} {
		if _, ends := ending(EndsOut, 1, front, front, 80, c.change).judging(); ends != c.want {
			t.Errorf("a rule %s ends the judgement: %v", what, ends)
		}
	}
}

// Either end may send first after a change, on the same node or on two. The connection is evaluated, not the
// packet.
func TestConnectionsAreJudgedAnewWhenGroupsEndJudgementsOrDoNotAnyMore(t *testing.T) {
	c := startCluster(t, web1, db1, db2)
	isolating := map[string]Tiers{web1.ID: isolated, db2.ID: isolated, db1.ID: isolated}
	in, out := ending(EndsIn, 10, front, store, 0), ending(EndsOut, 11, front, store, 0)
	backwards := ending(EndsIn, 12, store, front, 0) // for connections to a web
	in.ID, out.ID, backwards.ID = "in", "out", "backwards"
	policies := []TierRule{allowing(true, classWeb1), allowing(false, classDB1), allowing(false, classDB2)}
	c.judgeBeside([]Rule{in, out}, isolating)
	var talks []talkOver
	for i, to := range []Endpoint{db1, db2, db1, db2} {
		talk := c.calls(web1, c.pod(to), []netip.Addr{to.IPv4, to.IPv6}[i%2], 7000+uint16(i))
		for _, end := range []net.Conn{talk.client, talk.server} { // no packets but the test's
			if err := end.(*net.TCPConn).SetKeepAlive(false); err != nil {
				t.Fatal(err)
			}
		}
		talks = append(talks, talk)
	}
	speakers := func(i int) (from, to net.Conn) {
		if i < 2 {
			return talks[i].client, talks[i].server
		}
		return talks[i].server, talks[i].client
	}
	var word byte
	for _, step := range []struct {
		name   string
		groups []Rule
		rules  []TierRule
		want   bool
	}{
		{"admitted", []Rule{in, out}, nil, true},
		{"the sender's rule has gone", []Rule{in}, nil, false},
		{"it is back", []Rule{in, out}, nil, true},
		{"the mode has changed", []Rule{func() Rule { r := in; r.Ends = EndsNone; return r }(), func() Rule { r := out; r.Ends = EndsNone; return r }()}, nil, false},
		{"policies allow it", nil, policies, true},
		{"a rule about the other way allows nothing", []Rule{backwards, out}, nil, false},
		{"nor does it alone", []Rule{backwards}, policies[:1], false}, // policies allow to send
		{"both allow it", []Rule{in, out, backwards}, policies, true},
	} {
		c.judgeBeside(step.groups, isolating, step.rules...)
		word++
		patience := never
		if step.want {
			patience = soon
		}
		var all sync.WaitGroup
		for i := range talks {
			all.Go(func() {
				from, to := speakers(i)
				began := time.Now()
				if got := says(word, from, to, patience); got != step.want {
					t.Errorf("%s, connection %d: %v, want %v, after %s", step.name, i, got, step.want, time.Since(began))
				}
			})
		}
		all.Wait()
	}
}
