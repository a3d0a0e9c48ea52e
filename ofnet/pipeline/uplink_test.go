package pipeline

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
)

// An endpoint may use more source addresses than its own: the link-local one of its MAC, and none at all when it
// solicits an address. On a VLAN only its MAC then identifies it.
func TestRulesKnowWhoSendsOnAVLANWithoutItsAddress(t *testing.T) {
	c := startTrunks(t, vl1, vl2)
	sender, receiver := c.pod(vl2).wire(), c.pod(vl1).wire()
	frames := map[string]func(text string) []byte{
		"to everybody from the link-local address": func(s string) []byte {
			return udpFrame(mac{0x33, 0x33, 0, 0, 0, 0xfb}, vl2.MAC, addr("ff02::fb"), linkLocalOf(vl2.MAC), s)
		},
		"from one link-local address to the other": func(s string) []byte {
			return udpFrame(vl1.MAC, vl2.MAC, linkLocalOf(vl1.MAC), linkLocalOf(vl2.MAC), s)
		},
		"from the link-local address to another one": func(s string) []byte {
			return udpFrame(vl1.MAC, vl2.MAC, vl1.IPv6, linkLocalOf(vl2.MAC), s)
		},
		"a DHCP client's question": func(s string) []byte {
			f := udpFrame(broadcast, vl2.MAC, addr("255.255.255.255"), netip.IPv4Unspecified(), s)
			copy(f[34:], []byte{0, 68, 0, 67})
			return f
		},
	}
	for _, test := range []struct {
		rules string
		set   []Object
		want  int
	}{
		{"nothing from store", []Object{rule("no-store", 50, func(r *Rule) { r.SrcGroup, r.DstGroup = store, front })}, 0},
		{"only what is from store", []Object{
			rule("nobody", 10, func(r *Rule) { r.DstGroup = front }),
			rule("but-store", 50, func(r *Rule) { r.SrcGroup, r.DstGroup, r.Allow = store, front, true }),
		}, 1},
	} {
		// The sender's node passes everything: the test is about which endpoint the receiver's node takes the sender
		// for.
		c.programNode(c.pod(vl2).node)
		c.programNode(c.pod(vl1).node, test.set...)
		for name, frame := range frames {
			text, fence := name+", "+test.rules, "fence after "+name+", "+test.rules
			sender.send(frame(text))
			sender.send(ethernet(vl1.MAC, vl2.MAC, 0x88b5, []byte(fence))) // rules do not match it
			if got := receiver.got(fence, text); got != test.want {
				t.Errorf("%s: it arrives %d times, want %d", text, got, test.want)
			}
		}
	}
}

// Policies name classes of pods, wherever these are. On a VLAN each node has to know the class of the other end, also
// of one behind an external router, whose MAC the packets have then.
func TestTiersKnowTheClassesOfPodsOfOtherNodesOnAVLAN(t *testing.T) {
	const web, shop, stranger, beyond = 1, 2, 3, 4 // classes
	vl4 := endpoint("vl4", vlanBlue, 4, 0)
	far := endpoint("far", vlanFar, 2, 0)
	router := mac{2, 0, 0, 0, 0, 9}
	c := startTrunks(t, vl1, vl2, vl4)
	outside, pod := c.outsider(router), c.pod(vl1).wire()
	c.know(far)
	for e, class := range map[string]uint16{vl1.ID: web, vl2.ID: shop, vl4.ID: stranger, far.ID: beyond} {
		c.pods[e].Class = class
	}
	c.pod(vl1).serve(80)
	tagged := func(f []byte) []byte {
		return slices.Concat(f[:12], []byte{0x81, 0, 0, byte(vlanBlue.Tag)}, f[12:])
	}

	type counts struct{ come, leave int } // datagrams that reach the pod, and that leave
	first := inTier(FirstTier, 0, Deny)
	for _, s := range []struct {
		name           string
		tiers          Tiers
		rule           TierRule
		shop, stranger bool   // who connects to the pod on its VLAN
		far, nobody    counts // of an endpoint of another network, and of an address of no endpoint
	}{
		{"policies let some come", JudgesIn | IsolatesIn, allowing(false, web, withPeers(shop, beyond)), true, false, counts{1, 1}, counts{0, 1}},
		{"the first tier denies some to come", JudgesIn, allowing(false, web, first, withPeers(stranger, beyond)), true, false, counts{0, 1}, counts{1, 1}},
		{"policies let it call some", JudgesOut | IsolatesOut, allowing(true, web, withPeers(beyond)), true, true, counts{1, 1}, counts{1, 0}},
		{"the first tier denies it to call some", JudgesOut, allowing(true, web, first, withPeers(beyond)), true, true, counts{1, 0}, counts{1, 1}},
	} {
		c.pod(vl1).Tiers = s.tiers
		c.judge(nil, s.rule)
		for _, own := range []netip.Addr{vl1.IPv4, vl1.IPv6} {
			for from, want := range map[Endpoint]bool{vl2: s.shop, vl4: s.stranger} {
				if got := c.pod(from).connects(own, 80, want); got != want {
					t.Errorf("%s: %s connects to %s: %v, want %v", s.name, from.ID, own, got, want)
				}
			}
			known, unknown := far.IPv4, addr("10.1.9.3")
			if own.Is6() {
				known, unknown = far.IPv6, addr("fd00:9::3")
			}
			for other, want := range map[netip.Addr]counts{known: s.far, unknown: s.nobody} {
				came, went := s.name+": from "+other.String(), s.name+": to "+other.String()
				// A fence is not IP, so no rule applies to it.
				outside.send(tagged(udpFrame(vl1.MAC, router, own, other, came)))
				outside.send(tagged(ethernet(vl1.MAC, router, 0x88b5, []byte("fence in of "+other.String()))))
				pod.send(udpFrame(router, vl1.MAC, other, own, went))
				pod.send(ethernet(router, vl1.MAC, 0x88b5, []byte("fence out of "+other.String())))
				got := counts{pod.got("fence in of "+other.String(), came), outside.got("fence out of "+other.String(), went)}
				if got != want {
					t.Errorf("%s, %s: datagrams that come and go: %v, want %v", s.name, other, got, want)
				}
			}
		}
	}
}

// The connections of two networks on VLANs pass the switch of a node twice if both ends are on it.
func TestTiersJudgeConnectionsThroughARouterBetweenVLANs(t *testing.T) {
	near1, near2, far1, far2 := endpoint("1", vlanFar, 3, 0), endpoint("2", vlanFar, 5, 0), endpoint("3", vlanFar, 2, 0), endpoint("4", vlanFar, 4, 0)
	c := startTrunks(t, vl1, near1, near2, far1, far2)
	c.router(vlanBlue, vlanFar)
	const web, friends, strangers = 1, 2, 3 // classes
	for e, class := range map[string]uint16{vl1.ID: web, near1.ID: friends, far1.ID: friends, near2.ID: strangers, far2.ID: strangers} {
		c.pods[e].Class = class
		c.pods[e].serve(80)
	}
	calls, called := allowing(true, web, withPeers(friends)), allowing(false, friends, withPeers(web))
	answers, answered := allowing(true, friends, withPeers(web)), allowing(false, web, withPeers(friends))
	all := JudgesIn | IsolatesIn | JudgesOut | IsolatesOut
	for _, s := range []struct {
		name                               string
		tiers                              Tiers
		rules                              []TierRule
		toFriend, fromFriend, withStranger bool
	}{
		{"no policies", 0, nil, true, true, true},
		{"one direction", all, []TierRule{calls, called}, true, false, false},
		{"only the sender's policy", all, []TierRule{calls, answered}, false, false, false},
		{"both directions", all, []TierRule{calls, called, answers, answered}, true, true, false},
	} {
		for _, e := range []Endpoint{vl1, near1, far1} {
			c.pod(e).Tiers = s.tiers
		}
		c.judge(nil, s.rules...)
		var attempts sync.WaitGroup
		for _, call := range []struct {
			from, to Endpoint
			want     bool
		}{
			{vl1, near1, s.toFriend}, {vl1, far1, s.toFriend}, {near1, vl1, s.fromFriend}, {far1, vl1, s.fromFriend},
			{vl1, near2, s.withStranger}, {vl1, far2, s.withStranger}, {near2, vl1, s.withStranger}, {far2, vl1, s.withStranger},
		} {
			for _, a := range call.to.addresses() {
				attempts.Go(func() {
					if got := c.pod(call.from).connects(a, 80, call.want); got != call.want {
						t.Errorf("%s: %s connects to %s of %s: %t", s.name, call.from.ID, a, call.to.ID, got)
					}
				})
			}
		}
		attempts.Wait()
	}
}

// A router may pass multicast on to another network, also to endpoints of the sender's own node. There, too, the tiers judge
// what the sender floods.
func TestTiersJudgeWhatARouterPassesOnToEverybody(t *testing.T) {
	const web, friends, strangers = 1, 2, 3 // classes
	router := mac{2, 0, 0, 0, 0, 9}
	near1, near2, far1, far2 := endpoint("1", vlanFar, 3, 0), endpoint("2", vlanFar, 5, 0), endpoint("3", vlanFar, 2, 0), endpoint("4", vlanFar, 4, 0)
	c := startTrunks(t, vl1, near1, near2, far1, far2)
	outside := c.outsider(router)
	passesOn := func(f []byte) { outside.send(slices.Concat(f[:12], []byte{0x81, 0, 0, byte(vlanFar.Tag)}, f[12:])) }
	for e, class := range map[string]uint16{vl1.ID: web, near1.ID: friends, far1.ID: friends, near2.ID: strangers, far2.ID: strangers} {
		c.pods[e].Class = class
	}
	for _, s := range []struct {
		name     string
		tiers    Tiers
		rule     TierRule
		stranger int // copies that reach it
	}{
		{"policies let it call some", JudgesOut | IsolatesOut, allowing(true, web, withPeers(friends)), 0},
		{"policies let it call all", JudgesOut | IsolatesOut, allowing(true, web), 1},
		{"the first tier denies it to call some", JudgesOut, allowing(true, web, inTier(FirstTier, 0, Deny), withPeers(strangers)), 0},
		{"only its ingress is judged", JudgesIn | IsolatesIn, allowing(false, web), 1},
	} {
		c.pod(vl1).Tiers = s.tiers
		c.judge(nil, s.rule)
		in4, in6 := "IPv4: "+s.name, "IPv6: "+s.name
		copies := map[*wire]map[string]int{}
		for e, times := range map[Endpoint]int{near1: 1, far1: 1, near2: s.stranger, far2: s.stranger} {
			copies[c.pod(e).wire()] = map[string]int{in4: times, in6: times}
		}
		passesOn(udpFrame(mac{0x01, 0x00, 0x5e, 1, 1, 1}, router, addr("239.1.1.1"), vl1.IPv4, in4))
		passesOn(udpFrame(mac{0x33, 0x33, 0, 1, 1, 1}, router, addr("ff05::1:1"), vl1.IPv6, in6))
		expectCopies(t, s.name, func(fence string) { passesOn(ethernet(broadcast, router, 0x88b5, []byte(fence))) }, copies)
	}
}

// routerScript makes a namespace a router with two taps.
const routerScript = `
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
for tap; do
	ethtool -K "$tap" tx off >/dev/null
	sysctl -qw "net.ipv6.conf.$tap.accept_dad=0"
	ip link set "$tap" up
done`

// router starts a router at the cable of all nodes that has the gateways' addresses of networks on VLANs.
func (c *cluster) router(networks ...Network) {
	c.t.Helper()
	c.outsider(mac{2, 0, 0, 0, 0, 9})
	hub := c.nodes[0]
	p := &pod{t: c.t, node: hub, netns: hub.Netns + "-router"}
	p.netnsCommand("add")
	c.t.Cleanup(func() { p.netnsCommand("del") })
	hub.Vsctl("add-br", "router", "--", "set", "bridge", "router", "datapath_type=netdev", "--", "add-port", "router", fmt.Sprint("outside", hub.cabled))
	script, taps := routerScript, []string{}
	for _, in := range networks {
		tap := fmt.Sprint("tap", in.Tag)
		hub.Vsctl("add-port", "router", tap, fmt.Sprint("tag=", in.Tag), "--", "set", "interface", tap, "type=internal")
		hub.Exec("ip", "link", "set", tap, "netns", p.netns)
		script += fmt.Sprintf("\nip addr add %s/24 dev %s\nip addr add %s/64 dev %s nodad", in.Gateway, tap, in.Gateway6, tap)
		taps = append(taps, tap)
	}
	if out, err := p.exec(append([]string{"sh", "-ec", script, "sh"}, taps...)...); err != nil {
		c.t.Fatalf("router: %v: %s", err, out)
	}
}
