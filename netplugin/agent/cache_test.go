package agent

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// node is a cache with a planner; tests write records to it in short form.
type node struct {
	t        testing.TB
	cache    *cache
	planner  planner
	revision int64
	log      *logtest.Hook
}

func newNode(t testing.TB) *node {
	logger, hook := logtest.NewNullLogger()
	return &node{t: t, cache: newCache(me, logrus.NewEntry(logger)), planner: newPlanner(), log: hook}
}

func (n *node) put(key, value string) *node {
	n.revision++
	n.cache.apply(key, []byte(value), n.revision)
	return n
}

func (n *node) del(keys ...string) *node {
	for _, key := range keys {
		n.revision++
		n.cache.apply(key, nil, n.revision)
	}
	return n
}

// step plans and returns the change as text: "+endpoint x", "-rule y".
func (n *node) step() []string {
	change, ok := n.planner.plan(n.cache, everything)
	var lines []string
	for _, key := range change.Remove {
		lines = append(lines, "-"+string(key.Kind)+" "+key.ID)
	}
	for _, object := range change.Set {
		lines = append(lines, "+"+string(object.Key().Kind)+" "+object.Key().ID)
	}
	if ok != (len(lines) > 0) {
		n.t.Errorf("plan says %v of %v", ok, lines)
	}
	return lines
}

func (n *node) expect(why string, want ...string) {
	n.t.Helper()
	if diff := cmp.Diff(want, n.step()); diff != "" {
		n.t.Fatalf("%s: change differs (-want +got):\n%s", why, diff)
	}
}

// Short forms of records; the network and VRF of tenant blue have number 1, those of red number 2.
func netKey(id string) string  { return mastercfg.NetworkPrefix + id }
func epKey(id string) string   { return mastercfg.EndpointPrefix + id }
func vrfKey(t string) string   { return mastercfg.VRFPrefix + t }
func ruleKey(id string) string { return mastercfg.PolicyRulePrefix + id }
func vtepKey(ip string) string { return peerPrefix + ip + ":4789" }

func netValue(tenant, more string) string {
	return `{"tenant":"` + tenant + `","pktTagType":"vxlan","pktTag":1,"extPktTag":11,"subnetIP":"10.1.0.0","subnetLen":16,"gateway":"10.1.0.1"` + more + `}`
}

// epValue returns the record of an endpoint with the MAC address that netmaster derives from an IPv4 address.
func epValue(network, host, ip string) string {
	mac := "02:02:00:00:00:00"
	if addr, err := netip.ParseAddr(ip); err == nil && addr.Is4() {
		mac = net.HardwareAddr(append([]byte{2, 2}, addr.AsSlice()...)).String()
	}
	return `{"netID":"` + network + `","homingHost":"` + host + `","ipAddress":"` + ip + `","macAddress":"` + mac + `"}`
}

func ruleValue(id, action string) string {
	return `{"RuleId":"` + id + `","Priority":1,"Action":"` + action + `"}`
}

func vtepValue(host, ip string) string { return `{"Hostname":"` + host + `","HostAddr":"` + ip + `"}` }

const blueRule = "blue:front:blue:p:blue:p:1:inRx"

// blueHere returns a node with one endpoint of tenant blue, another one of blue on another node, and a rule.
func blueHere(t testing.TB) *node {
	n := newNode(t).
		put(vrfKey("blue"), `{"vrf":1}`).
		put(netKey("web.blue"), netValue("blue", "")).
		put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2")).
		put(epKey("web.blue-2"), epValue("web.blue", "node2", "10.1.0.3")).
		put(vtepKey("192.0.2.2"), vtepValue("node2", "192.0.2.2")).
		put(ruleKey(blueRule), ruleValue(blueRule, "allow"))
	n.expect("first state", "+network web.blue", "+endpoint web.blue-1", "+endpoint web.blue-2", "+rule "+blueRule, "+peer 192.0.2.2")
	return n
}

func TestTenantIsProgrammedOnlyWhileItHasAnEndpointHere(t *testing.T) {
	n := newNode(t).
		put(vrfKey("blue"), `{"vrf":1}`).
		put(netKey("web.blue"), netValue("blue", "")).
		put(epKey("web.blue-2"), epValue("web.blue", "node2", "10.1.0.3")).
		put(vtepKey("192.0.2.2"), vtepValue("node2", "192.0.2.2")).
		put(ruleKey(blueRule), ruleValue(blueRule, "allow"))
	n.expect("no endpoint of blue is here", "+peer 192.0.2.2")
	n.put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2"))
	n.expect("the first endpoint brings all of blue", "+network web.blue", "+endpoint web.blue-1", "+endpoint web.blue-2", "+rule "+blueRule)
	n.put(epKey("web.blue-1"), epValue("web.blue", "node3", "10.1.0.2"))
	n.expect("the last one takes all of blue along", "-rule "+blueRule, "-endpoint web.blue-2", "-endpoint web.blue-1", "-network web.blue")
}

func TestEndpointWaitsForItsNetworkItsVRFAndItsHostsVTEP(t *testing.T) {
	n := newNode(t).put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2")).put(epKey("web.blue-2"), epValue("web.blue", "node2", "10.1.0.3"))
	n.expect("network unknown")
	n.put(netKey("web.blue"), netValue("blue", ""))
	n.expect("VRF unknown")
	n.put(vrfKey("blue"), `{"vrf":1}`)
	n.expect("VTEP of node2 unknown", "+network web.blue", "+endpoint web.blue-1")
	key := pipeline.Key{Kind: pipeline.KindEndpoint, ID: "web.blue-2"}
	if err := n.planner.pending[key]; err == nil || !strings.Contains(err.Error(), "node2") {
		t.Errorf("pending says %v, want it to name node2", err)
	}
	n.put(vtepKey("192.0.2.2"), vtepValue("node2", "192.0.2.2"))
	n.expect("all known", "+endpoint web.blue-2", "+peer 192.0.2.2")
	if len(n.planner.pending) != 0 {
		t.Errorf("still pending: %v", n.planner.pending)
	}
}

func TestNetworkRewrittenByAnAllocationChangesNothing(t *testing.T) {
	n := blueHere(t)
	n.put(netKey("web.blue"), netValue("blue", `,"epCount":7,"epAddrCount":7,"ipAllocMap":"AAAAAAAAAEAAAAAAAAAAIQ=="`))
	if len(n.cache.dirty) != 0 {
		t.Errorf("dirty: %v", n.cache.dirty)
	}
	n.expect("only counters changed")
	if got := n.cache.networks["web.blue"].record.EpCount; got != 7 {
		t.Errorf("record is stale: %d endpoints, want 7", got)
	}
}

func TestVanishedPeerKeepsItsVTEPWhileEndpointsLiveThere(t *testing.T) {
	n := blueHere(t)
	n.del(vtepKey("192.0.2.2"))
	n.expect("agent of node2 restarts, its switch forwards on")
	n.put(epKey("web.blue-3"), epValue("web.blue", "node2", "10.1.0.4"))
	n.expect("a new endpoint there uses the held VTEP", "+endpoint web.blue-3")
	n.del(epKey("web.blue-2"), epKey("web.blue-3"))
	n.expect("the last endpoint leaves", "-endpoint web.blue-3", "-endpoint web.blue-2")
	n.put(epKey("web.blue-4"), epValue("web.blue", "node2", "10.1.0.5"))
	n.expect("the held VTEP is forgotten")
}

// Clients may enter by a node without endpoints, whose agent restarts while its switch forwards.
func TestAPeerStaysWhenItsRegistrationVanishesAndThisNodeIsNone(t *testing.T) {
	n := newNode(t).put(vtepKey("192.0.2.2"), vtepValue("node2", "192.0.2.2")).put(vtepKey("192.0.2.1"), vtepValue(me, "192.0.2.1"))
	n.expect("another node", "+peer 192.0.2.2")
	n.del(vtepKey("192.0.2.2"))
	n.expect("its agent is gone")
}

func TestARegistrationThatClaimsAnothersNameIsRefusedAndSaid(t *testing.T) {
	n := blueHere(t)
	said := func(want string) {
		t.Helper()
		if got := slices.Collect(maps.Values(n.cache.peers.refused)); strings.Join(got, "; ") != want {
			t.Errorf("refused %q, want %q", got, want)
		}
	}
	n.put(vtepKey("192.0.2.9"), vtepValue("node2", "192.0.2.9"))
	n.expect("a second node2")
	const why = "host node2 is at 192.0.2.2, a later registration says 192.0.2.9"
	said(why)
	if last := n.log.LastEntry(); last == nil || last.Level != logrus.ErrorLevel || last.Data["cause"] != why {
		t.Errorf("logged %+v", last)
	}
	n.put(vtepKey("192.0.2.2"), vtepValue("node2", "192.0.2.2"))
	n.expect("the first one is restarted")
	said(why)
	n.put(vtepKey("192.0.2.9"), vtepValue("node9", "192.0.2.9"))
	n.expect("the second one has a name of its own", "+peer 192.0.2.9")
	said("")
	n.put(vtepKey("192.0.2.9"), vtepValue("node2", "192.0.2.9"))
	n.expect("and takes the first one's again", "-peer 192.0.2.9")
	said(why)
	n.put(peerPrefix+"192.0.2.2:8472", vtepValue("node9", "192.0.2.2"))
	n.expect("another name for the address of node2")
	n.del(peerPrefix + "192.0.2.2:8472")
	said(why)
	n.del(vtepKey("192.0.2.2"))
	n.expect("the first one's lease ran out: node2 has moved", "+endpoint web.blue-2", "+peer 192.0.2.9")
	said("")
}

func TestWhatIsReadAtAStartIsAsOldAsItsKeys(t *testing.T) {
	n := newNode(t)
	n.put(vtepKey("192.0.2.9"), vtepValue("node2", "192.0.2.9")) // written before the restart of
	n.put(vtepKey("192.0.2.2"), vtepValue("node2", "192.0.2.2")) // this one, whose key is older
	n.cache.settle(n.cache.peers.made("192.0.2.2:4789", 0)...)
	n.cache.settle(n.cache.peers.made("192.0.2.9:4789", 1)...)
	n.expect("what was made first counts", "+peer 192.0.2.2")
}

// A second registration of node2 has an address that node3 registers next.
func TestARefusedRegistrationRefusesNoOther(t *testing.T) {
	n := blueHere(t)
	n.put(vtepKey("192.0.2.9"), vtepValue("node2", "192.0.2.9"))
	n.expect("a second node2")
	n.put(peerPrefix+"192.0.2.9:8472", vtepValue("node3", "192.0.2.9"))
	n.expect("node3 has the address", "+peer 192.0.2.9")
	n.put(vtepKey("192.0.2.2"), vtepValue("node4", "192.0.2.2"))
	n.expect("the first node2 has another name: the second one counts, and node3 does not", "+endpoint web.blue-2")
	if vtep := n.cache.peers.vtep; vtep["node2"] != netip.MustParseAddr("192.0.2.9") || vtep["node4"] != netip.MustParseAddr("192.0.2.2") {
		t.Errorf("VTEPs: %v", vtep)
	}
	n.del(vtepKey("192.0.2.9"))
	n.put(epKey("web.blue-3"), epValue("web.blue", "node3", "10.1.0.4"))
	n.expect("and then node3 again", "+endpoint web.blue-3")
	if refused := n.cache.peers.refused; len(refused) != 0 {
		t.Errorf("refused: %v", refused)
	}
}

// node3 is kept at an address that a refused registration of node2 has, and leaves it by the same change that
// moves node2.
func TestARefusedAddressIsForgottenOnceItsLastHostLeaves(t *testing.T) {
	n := blueHere(t)
	n.put(vtepKey("192.0.2.9"), vtepValue("node3", "192.0.2.9"))
	n.put(epKey("web.blue-3"), epValue("web.blue", "node3", "10.1.0.4"))
	n.put(vtepKey("192.0.2.8"), vtepValue("node2", "192.0.2.8"))
	n.put(vtepKey("192.0.2.9"), vtepValue("node2", "192.0.2.9"))
	n.expect("node3 is in use, at the address that was its own", "+endpoint web.blue-3", "+peer 192.0.2.9")
	n.put(vtepKey("192.0.2.2"), vtepValue("node3", "192.0.2.2"))
	n.expect("node3 has the address of node2", "-peer 192.0.2.9", "+endpoint web.blue-2", "+endpoint web.blue-3", "+peer 192.0.2.8")
}

// A restored store continues from the backup's revision.
func TestARegistrationOfARestoredStoreIsLaterThanWhatIsKnown(t *testing.T) {
	n := blueHere(t)
	n.cache.peers.storeRewound()
	n.cache.apply(vtepKey("192.0.2.9"), []byte(vtepValue("node2", "192.0.2.9")), 1)
	n.expect("a second node2")
	n.cache.apply(vtepKey("192.0.2.8"), []byte(vtepValue("node8", "192.0.2.8")), 3)
	n.cache.apply(peerPrefix+"192.0.2.8:8472", []byte(vtepValue("node8", "192.0.2.7")), 2)
	n.expect("of two that come then, the earlier counts", "+peer 192.0.2.7")
	n.del(vtepKey("192.0.2.2"))
	n.expect("the first one's lease ran out", "+endpoint web.blue-2", "+peer 192.0.2.9")
}

func TestRememberedVTEPGivesWayToARegistration(t *testing.T) {
	n := newNode(t).put(vrfKey("blue"), `{"vrf":1}`).put(netKey("web.blue"), netValue("blue", "")).
		put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2")).put(epKey("web.blue-2"), epValue("web.blue", "node2", "10.1.0.3"))
	if got := slices.Collect(maps.Keys(n.cache.hostsWithoutVTEP())); !slices.Equal(got, []string{"node2"}) {
		t.Fatalf("hosts without VTEP: %v", got)
	}
	v, err := parseAddr("192.0.2.2", v4)
	if err != nil {
		t.Fatal(err)
	}
	n.cache.recallPeer("node2", v)
	n.cache.recallPeer("node7", v)
	n.expect("remembered", "+network web.blue", "+endpoint web.blue-1", "+endpoint web.blue-2", "+peer 192.0.2.2")
	n.put(vtepKey("192.0.2.9"), vtepValue("node2", "192.0.2.9"))
	n.expect("registered elsewhere", "+endpoint web.blue-2", "+peer 192.0.2.9")
	if _, kept := n.cache.peers.vtep["node7"]; kept {
		t.Error("a host without endpoints is remembered")
	}
}

func TestTagOfANetworkChangesAllItsEndpoints(t *testing.T) {
	n := blueHere(t)
	n.put(netKey("web.blue"), strings.Replace(netValue("blue", ""), `"extPktTag":11`, `"extPktTag":12`, 1))
	n.expect("VNI 12", "+network web.blue", "+endpoint web.blue-1", "+endpoint web.blue-2")
	n.del(netKey("web.blue"))
	n.expect("network gone, and blue with it", "-rule "+blueRule, "-endpoint web.blue-2", "-endpoint web.blue-1", "-network web.blue")
}

func TestUnusableRecordsAreLoggedWithTheirNameAndLeftOut(t *testing.T) {
	mac := func(v string) string {
		return strings.Replace(epValue("web.blue", me, "10.1.0.9"), "02:02:0a:01:00:09", v, 1)
	}
	for _, c := range []struct{ name, key, value string }{
		{"garbage", epKey("web.blue-x"), "{"},
		{"address of no family", epKey("web.blue-x"), epValue("web.blue", me, "10.1.0")},
		{"IPv6 in the IPv4 field", epKey("web.blue-x"), epValue("web.blue", me, "2001:db8::1")},
		{"group MAC address", epKey("web.blue-x"), mac("01:00:5e:00:00:01")},
		{"long MAC address", epKey("web.blue-x"), mac("02:02:0a:01:00:05:06:07")},
		{"no MAC address", epKey("web.blue-x"), mac("")},
		{"network with a wrong type", netKey("x.blue"), netValue("blue", `,"pktTag":"one"`)},
		{"network of encapsulation vlan", netKey("x.blue"), strings.Replace(netValue("blue", ""), "vxlan", "vlan", 1)},
		{"VNI out of range", netKey("x.blue"), strings.Replace(netValue("blue", ""), `"extPktTag":11`, `"extPktTag":65536`, 1)},
		{"subnet too long", netKey("x.blue"), strings.Replace(netValue("blue", ""), `"subnetLen":16`, `"subnetLen":33`, 1)},
		{"gateway with a port", netKey("x.blue"), strings.Replace(netValue("blue", ""), "10.1.0.1", "10.1.0.1:80", 1)},
		{"rule with an unknown action", ruleKey("blue:x"), ruleValue("blue:x", "log")},
		{"rule under a foreign key", ruleKey("blue:x"), ruleValue("red:x", "deny")},
		{"rule with a bad prefix", ruleKey("blue:x"), `{"RuleId":"blue:x","Priority":1,"Action":"deny","SrcIpAddr":"10.0.0.0/33"}`},
		{"rule with unknown flags", ruleKey("blue:x"), `{"RuleId":"blue:x","Priority":1,"Action":"deny","TcpFlags":"fin"}`},
		{"VTEP without a host", vtepKey("192.0.2.7"), `{"HostAddr":"192.0.2.7"}`},
		{"VRF zero", vrfKey("grey"), `{"vrf":0}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := blueHere(t)
			n.put(c.key, c.value)
			n.expect("nothing usable came")
			id := c.key[strings.LastIndex(c.key, "/")+1:]
			entry := n.log.LastEntry()
			if entry == nil {
				t.Fatal("nothing was logged")
			}
			if line, err := entry.String(); err != nil || !strings.Contains(line, id) {
				t.Errorf("log does not name %s: %s %v", id, line, err)
			}
			n.put(c.key, c.value)
			n.del(c.key)
			n.expect("it went away again")
		})
	}
}

func TestCorruptValueTakesTheOldRecordAway(t *testing.T) {
	n := blueHere(t)
	n.put(epKey("web.blue-2"), "\x00")
	n.expect("as after a restart", "-endpoint web.blue-2")
	n.put(epKey("web.blue-2"), epValue("web.blue", "node2", "10.1.0.3"))
	n.expect("repaired", "+endpoint web.blue-2")
}

func TestAddressMovesBetweenHostsInOneChange(t *testing.T) {
	n := blueHere(t)
	n.del(epKey("web.blue-2")).put(epKey("web.blue-9"), epValue("web.blue", me, "10.1.0.3"))
	n.expect("one step", "-endpoint web.blue-2", "+endpoint web.blue-9")
}

func TestTranslatedObjectsCarryWhatTheRecordsSay(t *testing.T) {
	n := newNode(t).
		put(vrfKey("blue"), `{"vrf":7}`).
		put(netKey("web.blue"), netValue("blue", `,"ipv6SubnetIP":"2001:db8::","ipv6SubnetLen":64,"ipv6Gateway":"2001:db8::1"`)).
		put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2")).
		put(ruleKey("blue:r"), `{"RuleId":"blue:r","Priority":9,"Action":"allow","SrcEndpointGroup":3,"DstIpAddr":"10.1.2.3/24","DstIpv6Addr":"2001:db8:2::/64","IpProtocol":6,"DstPort":80,"TcpFlags":"syn,!ack"}`)
	change, _ := n.planner.plan(n.cache, everything)
	var got []string
	for _, o := range change.Set {
		got = append(got, text(o))
	}
	want := []string{
		`{"ID":"web.blue","Tenant":"blue","Mode":0,"Encap":0,"VRF":7,"VNI":11,"Tag":1,"Subnet":"10.1.0.0/16","Gateway":"10.1.0.1","Subnet6":"2001:db8::/64","Gateway6":"2001:db8::1"}`,
		`{"ID":"web.blue-1","Network":"web.blue","Tenant":"blue","Mode":0,"Encap":0,"VRF":7,"VNI":11,"Tag":1,"IPv4":"10.1.0.2","IPv6":"","MAC":[2,2,10,1,0,2],"Group":0,"Local":true,"VTEP":"","Limits":{"Rate":0,"Sent":0,"Received":0,"Burst":0,"DSCP":0},"Class":0,"Tiers":0,"Host":false,"Private":""}`,
		`{"ID":"blue:r","Priority":9,"SrcGroup":3,"DstGroup":0,"Src":"","Dst":"10.1.2.0/24","Src6":"","Dst6":"2001:db8:2::/64","Protocol":6,"SrcPort":0,"DstPort":80,"TCPFlags":"syn,!ack","Allow":true}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestGlobalConfigurationIsKnownWhenBothPartsAre(t *testing.T) {
	n := newNode(t)
	for value, known := range map[string]bool{
		`{"fwd-mode":"routing","pvt-subnet":"172.19.0.0/16"}`: true, `{"fwd-mode":"routing"}`: false, `{`: false,
	} {
		n.put(mastercfg.GlobalConfigKey, value)
		if n.cache.globalKnown() != known {
			t.Errorf("%s: known %v, want %v", value, !known, known)
		}
	}
}

func TestPendingReasonsHaveAKind(t *testing.T) {
	n := newNode(t).put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2"))
	if _, err := n.cache.wantedEndpoint("web.blue-1"); !fault.Is(err, fault.MissingReference) {
		t.Errorf("network unknown: %v", err)
	}
	if _, err := n.cache.wantedEndpoint("web.blue-5"); !fault.Is(err, fault.NotFound) {
		t.Errorf("endpoint unknown: %v", err)
	}
}

// A port that was made on the other bridge would be no endpoint's. Names of networks, tenants, hosts and containers may
// have dashes.
func TestAnIdTellsTheBridgeOfAnEndpointOnlyIfItIsOfNoOtherNetwork(t *testing.T) {
	n := newNode(t)
	n.cache.uplink = true
	expect := func(why, id, want string) {
		t.Helper()
		got := ""
		if of, known := n.cache.networkOf(id); known {
			got = of.record.ID
		}
		if got != want {
			t.Errorf("%s: %s is in network %q, want %q", why, id, got, want)
		}
	}
	n.put(netKey("web.blue"), netValue("blue", ""))
	expect("one dash", "web.blue-1", "web.blue")
	expect("a tenant that is not known yet", "web.blue-a-1", "")
	expect("no network", "other", "")
	n.put(netKey("web.blue-a"), strings.Replace(netValue("blue-a", ""), "vxlan", "vlan", 1)).put(netKey("web.blue-b"), netValue("blue-b", ""))
	expect("two bridges", "web.blue-a-1", "")
	expect("one bridge", "web.blue-b-1", "web.blue-b")
	n.put(epKey("web.blue-a-1"), epValue("web.blue", me, "10.1.0.2"))
	expect("its record", "web.blue-a-1", "web.blue")
}
