package pipeline

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// judge programs rules of tiers; whatever they are, they are another epoch than before.
func (c *cluster) judge(tiers map[string]Tiers, rules ...TierRule) {
	c.t.Helper()
	c.epoch++
	c.classify(tiers)
	objects := []Object{Epoch{Number: c.epoch}}
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

// A switch has one flow for a match and a priority. Whatever several policies say of one
// subject can be there at once: parts of conjunctions are united, others do the same.
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
		want     bool // over both versions of IP
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

// Any pod is whoever has a class, whatever bits that has; a rule about them says nothing of others. There may be several such rules,
// and rules about classes beside them.
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
			isPod, net bool // a rule about any pod is about the peer, or one that names its address
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

// talkOver is a TCP connection between two pods.
type talkOver struct{ client, server net.Conn }

func (c *cluster) connect(from, to Endpoint, port uint16) talkOver {
	c.t.Helper()
	return c.calls(from, c.pod(to), to.IPv4, port)
}

func (c *cluster) calls(from Endpoint, server *pod, at netip.Addr, port uint16) talkOver {
	c.t.Helper()
	var listener net.Listener
	var talk talkOver
	err := server.inside(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(at, port).String())
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	defer listener.Close()
	err = c.pod(from).inside(func() (err error) {
		talk.client, err = net.DialTimeout("tcp", listener.Addr().String(), soon)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if talk.server, err = listener.Accept(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _, _ = talk.client.Close(), talk.server.Close() })
	return talk
}

// says tells whether what one end says arrives at the other, behind what was lost before.
func says(word byte, from, to net.Conn, patience time.Duration) bool {
	_ = to.SetReadDeadline(time.Now().Add(patience))
	if _, err := from.Write([]byte{word}); err != nil {
		return false
	}
	for heard := []byte{0}; ; {
		if _, err := io.ReadFull(to, heard); err != nil || heard[0] == word {
			return err == nil
		}
	}
}

// Whoever of the two speaks first after a change.
func TestConnectionsAreJudgedAnewWhenTheRulesChange(t *testing.T) {
	c := startCluster(t, web1, db1, db2)
	both := map[string]Tiers{web1.ID: isolated, db2.ID: isolated, db1.ID: isolated}
	rules := []TierRule{allowing(true, classWeb1), allowing(false, classDB2, withPeers(classWeb1)), allowing(false, classDB1, withPeers(classWeb1))}
	c.judge(both, rules...)
	var talks []talkOver
	for i, to := range []Endpoint{db1, db2, db1, db2} {
		talks = append(talks, c.connect(web1, to, 7000+uint16(i)))
	}
	clientFirst := func(i int) (from, to net.Conn) {
		if i < 2 {
			return talks[i].client, talks[i].server
		}
		return talks[i].server, talks[i].client
	}
	var word byte
	try := func(when string, want bool) {
		t.Helper()
		word++
		var all sync.WaitGroup
		for i := range talks {
			all.Go(func() {
				patience := never
				if want {
					patience = soon
				}
				from, to := clientFirst(i)
				if got := says(word, from, to, patience); got != want {
					t.Errorf("%s, connection %d: %v, want %v", when, i, got, want)
				}
			})
		}
		all.Wait()
	}
	try("admitted", true)
	c.judge(both, rules...)
	try("another epoch, the same rules", true)
	c.judge(both, rules[1:]...) // web1 may not begin anything any more
	try("the sender's rule has gone", false)
	c.judge(both, rules...)
	try("it is back", true) // what was lost is sent again
	c.judge(both, rules[0])
	try("the receivers' rules have gone", false)
}

// Whoever of the two speaks first after the change.
func TestPeersOfBegunConnectionsKeepThemAndGetNoOthers(t *testing.T) {
	c := startCluster(t, web1, db2)
	tiers := map[string]Tiers{web1.ID: JudgesOut | IsolatesOut}
	peers := []netip.Prefix{inet.Host(db2.IPv4), inet.Host(db2.IPv6)}
	server := c.pod(db2)
	c.judge(tiers, allowing(true, classWeb1, withNets(peers...)))
	var talks []talkOver
	for i, at := range []netip.Addr{db2.IPv4, db2.IPv6, db2.IPv4, db2.IPv6} {
		talks = append(talks, c.calls(web1, server, at, 7000+uint16(i)))
	}
	server.serve(80)
	c.judge(tiers, allowing(true, classWeb1, withNets(), func(r *TierRule) { r.Begun = peers }))
	for i, talk := range talks {
		from, to := talk.client, talk.server
		if i < 2 {
			from, to = to, from
		}
		if !says(1, from, to, soon) || !says(2, to, from, soon) {
			t.Errorf("connection %d has ended", i)
		}
	}
	for _, at := range []netip.Addr{db2.IPv4, db2.IPv6} {
		if c.pod(web1).connects(at, 80, false) {
			t.Errorf("a connection to %s begins", at)
		}
	}
	c.judge(tiers)
	if says(3, talks[0].client, talks[0].server, never) {
		t.Error("without the rule the connection goes on")
	}
}

func TestTheHostOfAnEndpointIsNotJudged(t *testing.T) {
	c := startCluster(t, web1, web2, db1)
	for _, e := range []Endpoint{web1, web2, db1} {
		c.pod(e).serve(80)
	}
	host := c.withOutside(web1)
	c.judge(map[string]Tiers{web1.ID: isolated, web2.ID: isolated}) // without the way out
	n := c.pod(web1).node
	own := OutsideAddress(wayOut.Prefix, OutsideHost)
	wants := c.wants(n, wayOut, Epoch{Number: 9}).chosen()
	n.replace(t, wants)
	if got := host.pinged(OutsideAddress(wayOut.Prefix, c.pod(web1).port)); got == 0 {
		t.Errorf("the host, as %s, does not reach its endpoint", own)
	}
	for from, want := range map[netip.Addr]bool{own: false, PodsAsHost(wayOut.Prefix): true} {
		if got := n.verdict(t, packet{inPort: host.port, src: wayOut.MAC, dst: wayOut.MAC, from: from, to: OutsideAddress(wayOut.Prefix, c.pod(web1).port)}); strings.HasSuffix(got, "drop") != want {
			t.Errorf("from %s to an isolated endpoint: %s, want it dropped: %v", from, got, want)
		}
	}
	if got := c.pod(web1).ping(beyond[0]); got != 0 {
		t.Error("an isolated endpoint reaches the world")
	}

	// An endpoint that is the host: to the endpoints of its node, not to those of others.
	for _, e := range []Endpoint{web2, db1} {
		c.pod(e).Host = true
	}
	c.judge(map[string]Tiers{web1.ID: isolated})
	if c.pod(web2).connects(web1.IPv4, 80, false) {
		t.Error("the host of another node is not judged")
	}
	if !c.pod(db1).connects(web1.IPv4, 80, true) || !c.pod(web1).connects(db1.IPv4, 80, true) {
		t.Error("the host does not reach its endpoint, or is not reached")
	}
}

// A service's provider is judged, not the service, and answers come back.
func TestAServiceLeadsToIsolatedProviders(t *testing.T) {
	c := startCluster(t, web1, db1, web2, db2)
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	tiers := map[string]Tiers{web1.ID: isolated, web2.ID: isolated, db1.ID: JudgesOut | IsolatesOut}
	c.classify(tiers)
	rules := []Object{Epoch{Number: 5}, serving(FromPods, addressesOf(web1, web2), vip, vip6)}
	for i, r := range []TierRule{
		allowing(false, classWeb1, withPeers(classDB1, classDB2), withPorts(PortRange{6, 8080, 8080}, PortRange{17, 5353, 5353})),
		allowing(false, classWeb2, withPeers(classDB1, classDB2)),
		allowing(true, classDB1, withPeers(classWeb1, classWeb2), withPorts(PortRange{6, 8080, 8080}, PortRange{17, 5353, 5353})),
	} {
		r.Number, r.ID = uint32(i+1), fmt.Sprint(i)
		rules = append(rules, r)
	}
	for _, n := range c.nodes {
		n.replace(t, c.wants(n, rules...).chosen())
	}
	for _, a := range []netip.Addr{vip, vip6} {
		c.served(db1, a, web1, web2)
		c.served(db2, a, web1, web2)
	}
}

// An endpoint that policies isolate reaches its own node, but by ports that lead elsewhere only as a rule of its own
// says; the tiers of the cluster's owner judge it as others. Who has the node's address in a tenant's network is not the node.
func TestIsolatedEndpointsReachTheirOwnNode(t *testing.T) {
	const ssh, led = 22, 30080
	c := startCluster(t, web1, db2)
	host := c.withOutside(web1)
	for _, port := range []uint16{ssh, led} {
		host.serve(port)
	}
	c.pod(db2).serve(ssh)
	way := wayOut
	way.Led = []PortRange{{openflow.ProtoTCP, led, led}}
	way.Own = slices.Clone(beyond)
	judge := func(tiers Tiers, own []netip.Addr, rules ...TierRule) {
		c.epoch++
		c.classify(map[string]Tiers{web1.ID: tiers})
		way.Own = own
		objects := []Object{way, Epoch{Number: c.epoch}}
		for i, r := range rules {
			r.Number, r.ID = uint32(i+1), fmt.Sprint("r", i)
			objects = append(objects, r)
		}
		for _, n := range c.nodes {
			n.replace(t, c.wants(n, objects...).chosen())
		}
	}
	reaches := func(when string, to netip.Addr, port uint16, want bool) {
		t.Helper()
		if got := c.pod(web1).connects(to, port, want); got != want {
			t.Errorf("%s: %s:%d: %v, want %v", when, to, port, got, want)
		}
	}
	nobody, everywhere := inTier(FirstTier, 0, Deny), inTier(LastTier, 0, Deny)
	for _, a := range beyond {
		judge(isolated, nil)
		reaches("an address that is not the node's", a, ssh, false)
		judge(isolated, beyond)
		reaches("isolated", a, ssh, true)
		reaches("isolated", a, led, false)
		judge(isolated, beyond, allowing(true, classWeb1, withNets(inet.Host(a))))
		reaches("a policy allows the node", a, led, true)
		judge(isolated, beyond, allowing(true, classWeb1, everywhere))
		reaches("what policies allow, the last tier is not asked about", a, ssh, true)
		judge(isolated, beyond, allowing(true, classWeb1, nobody))
		reaches("the first tier denies", a, ssh, false)
		judge(JudgesOut, beyond, allowing(true, classWeb1, everywhere))
		reaches("the last tier denies", a, ssh, false)
	}
	judge(isolated, []netip.Addr{db2.IPv4, db2.IPv6})
	for _, a := range []netip.Addr{db2.IPv4, db2.IPv6} {
		reaches("another endpoint has the node's address", a, ssh, false)
	}

	judge(isolated, beyond)
	conn := c.calls(web1, host, beyond[0], 7000)
	judge(isolated, beyond)
	if !says(1, conn.server, conn.client, soon) || !says(2, conn.client, conn.server, soon) {
		t.Error("another epoch, and the node speaks first: the connection has ended")
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

// A host reaches isolated providers of its own node and of others, as who may: the
// connection tracker of the provider's node sees both directions.
func TestAServiceLeadsTheHostToIsolatedProvidersOfOtherNodes(t *testing.T) {
	c := startCluster(t, web1, web2)
	c.classify(map[string]Tiers{web1.ID: isolated, web2.ID: isolated})
	objects := []Object{serving(FromPods|FromHost, addressesOf(web1, web2), external, external6), Epoch{Number: 7}}
	for i, class := range []uint16{classWeb1, classWeb2} {
		r := allowing(false, class, withPorts(PortRange{6, 8080, 8080}, PortRange{17, 5353, 5353}))
		r.Number, r.ID = uint32(i+1), fmt.Sprint(i)
		objects = append(objects, r)
	}
	host := c.withOutside(web1)
	for _, n := range c.nodes {
		n.replace(t, c.wants(n, append(objects, wayOut)...).chosen())
	}
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	for i, at := range []netip.Addr{external, external6} {
		host.route(at)
		for _, from := range []netip.Addr{OutsideAddress(wayOut.Prefixes()[i], OutsideHost), beyond[i]} {
			for kind, port := range map[string]int{"tcp": 80, "udp": 53} {
				c.askedAs(host, at, kind, port, func(string) netip.Addr { return from }, []netip.Addr{from}, web1, web2)
			}
		}
	}
}
