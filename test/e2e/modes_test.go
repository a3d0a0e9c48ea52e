package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// The promises of every forwarding mode, and the differences between bridged and routed networks.
func TestLongEveryModeKeepsWhatIsPromised(t *testing.T) {
	testkit.TakesLong(t)
	for _, l := range landscapes {
		t.Run(l.mode+" "+l.encap, func(t *testing.T) {
			var chapters []chapter
			for _, p := range promises {
				if p.mode == "" || p.mode == l.mode {
					chapters = append(chapters, chapter{p.title, func(s story) { p.holds(s, l) }})
				}
			}
			tellOn(t, testbed.Config{Nodes: 3, Uplinks: 1, First: true}, chapters)
		})
	}
}

var promises = []struct {
	title string
	mode  string // the only mode with the promise; empty: both
	holds func(story, landscape)
}{
	{"a profile limits its pods in both directions, and marks what they send", "", aProfileLimits},
	{"an address that moves to another node is reached there soon", "", anAddressMoves},
	{"pods with IPv6 only reach each other", "", podsWithIPv6Only},
	{"a service answers at its addresses, and refuses while nobody provides it", "", aServiceAnswers},
	{"what is for all reaches the members on all nodes and nobody else", "bridge", floodsReachMembers},
	{"hosts and pods reach each other by an infra network", "", hostsAndPods},
}

// Subnets of the network lan of blue, by IP family. In a bridged VLAN its gateway is an external router.
const (
	onlyIPv6  = "-s6 fd00:7::/64 -g6 " + lanRouter6
	dualStack = "-s 10.1.7.0/24 -g " + lanRouter4 + " " + onlyIPv6
)

// takesOn sets up the cluster for the landscape. In routed VLANs nodes are routers; there are no others.
func (s story) takesOn(l landscape) {
	s.Helper()
	if l.mode == "bridge" {
		s.netctlForNow("global set --fwd-mode bridge", "global set --fwd-mode routing")
	}
	for i, n := range s.bed.Nodes {
		if l.routedVLANs() {
			s.netctlForNow(fmt.Sprintf("bgp create %s --router-ip %s/24 --as 65001 --neighbor-as 65100 --neighbor %s", n.Name, nodeAddress(i), routerAddress), "bgp rm "+n.Name)
		}
	}
}

// lan sets up the cluster for the landscape, with blue and its network lan.
func (s story) lan(l landscape, versions string) {
	s.Helper()
	s.takesOn(l)
	s.tenant("blue")
	s.networkOn(l, "lan", lanVLAN, versions)
}

// networkOn makes a network of blue. On a bridged VLAN an external router has the first address of each IP family.
func (s story) networkOn(l landscape, name string, vlan uint16, options string) {
	s.Helper()
	if l.encap == "vlan" {
		options += fmt.Sprint(" -e vlan -p ", vlan)
		if l.mode == "bridge" {
			s.vlan(vlan, fmt.Sprintf("10.1.%d.1", vlan-100), fmt.Sprintf("fd00:%d::1", vlan-100))
		}
	}
	s.blueNetwork(name, options)
}

// switchName returns the bridge of its networks.
func (l landscape) switchName() string {
	return map[string]string{"vxlan": "contivVxlanBridge", "vlan": "contivVlanBridge"}[l.encap]
}

// wire returns the link of a node to the others, and the UDP port of datagrams to echoPort on it.
func (l landscape) wire() (device, port string) {
	if l.encap == "vlan" {
		return testbed.UplinkName(1), echoPort
	}
	return "uplink", "4789"
}

// soonThere is how long packets may still go elsewhere after an address has moved.
const soonThere = 3 * time.Second

// anAddressMoves deletes a pod and creates one with its addresses, and so its MAC, on another node. A sender on a
// third node notices nothing else.
func anAddressMoves(s story, l landscape) {
	s.lan(l, dualStack)
	third := s.pod(2, "third", "blue", "lan", "")
	pod, err := s.bed.Nodes[0].AddPod(s.ctx, "here", "blue", "lan", "")
	s.must(err)
	s.serve(pod)
	s.reachEachOther(shortly, third, pod)
	four, six := pod.IP, s.ipv6Of(pod)
	moved := s.sandbox(1, "there", "blue", "lan", "")
	moved.Wanted = []netip.Addr{four, six}
	s.serve(moved) // before it has an address, so that it never refuses
	var back time.Time
	flows := []flow{{name: "IPv4", from: third, to: four}, {name: "IPv6", from: third, to: six}}
	reports := s.whileFlowing(flows, func() {
		_, err := pod.CNI(s.ctx, "del") // while it serves, for the same reason
		s.must(err)
		s.must(moved.Attach(s.ctx))
		back = time.Now()
		if now := s.ipv6Of(moved); moved.IP != four || now != six {
			s.Fatalf("the pod has %s and %s, not %s and %s", moved.IP, now, four, six)
		}
		s.pause(soonThere + time.Second)
	})
	s.must(pod.Delete(s.ctx))
	for i, r := range reports {
		if after := r.LastLost.Sub(back); after > soonThere || r.Sent == 0 {
			s.Errorf("%s was lost until %s after the address had moved", flows[i].name, after)
		} else {
			s.Logf("%s: %d lost, the last one %s after the address had moved", flows[i].name, r.Lost, after)
		}
	}
	s.must(reaches(s.ctx, third, moved)) // and no other pod answers for it
}

// podsWithIPv6Only have a router in modes with one.
func podsWithIPv6Only(s story, l landscape) {
	s.lan(l, onlyIPv6)
	var pods []*testbed.Pod
	for i := range s.bed.Nodes {
		pods = append(pods, s.pod(i, fmt.Sprint("six", i), "blue", "lan", ""))
	}
	for _, p := range pods {
		s.hasIPv6Only(p)
		if l.mode == "routing" || l.encap == "vlan" {
			s.pings(p, p.Gateway.String())
		}
	}
	s.reachEachOther(shortly, pods...)
}

// aServiceAnswers sends requests as a client and as the provider itself.
func aServiceAnswers(s story, l landscape) {
	s.lan(l, dualStack)
	client, provider := s.pod(0, "client", "blue", "lan", ""), s.pod(1, "provider", "blue", "lan", "")
	s.service("web", "lan", lanVIP, lanVIP6, "")
	for _, vip := range []string{lanVIP, lanVIP6} {
		s.refusedAt(client, vip)
		s.pings(client, vip)
	}
	s.container("start", provider, map[string]string{"app": "web"})
	for _, vip := range []string{lanVIP, lanVIP6} {
		s.servedAt(vip, []*testbed.Pod{client, provider}, provider.Name)
		s.sendsAgents(nothing, func() {
			s.reachEachOther(shortly, client, provider)
			s.servedAt(vip, []*testbed.Pod{client, provider}, provider.Name)
		})
		if l.mode == "bridge" && l.encap == "vlan" && pinged(s.ctx, s.bed.Outside.Run, netip.MustParseAddr(vip)) == nil {
			s.Errorf("the router outside reaches the service at %s", vip)
		}
	}
	s.container("die", provider, nil)
	for _, vip := range []string{lanVIP, lanVIP6} {
		s.refusedAt(client, vip)
	}
}

// hostsAndPods has hosts in the network contivh1, and pods in another one, which hosts reach through the gateways;
// or, as bridged networks have none, in the same one.
func hostsAndPods(s story, l landscape) {
	s.lan(l, dualStack)
	s.networkOn(l, mastercfg.AccessNetwork, 109, "--nw-type infra -s 10.1.9.0/24 -g 10.1.9.1 -s6 fd00:9::/64 -g6 fd00:9::1")
	network := "lan"
	if l.mode == "bridge" {
		network = mastercfg.AccessNetwork
	}
	host := s.bed.Nodes[0]
	for _, pod := range []*testbed.Pod{s.pod(0, "near", "blue", network, ""), s.pod(1, "far", "blue", network, "")} {
		for _, address := range []netip.Addr{pod.IP, s.ipv6Of(pod)} {
			s.soon(shortly, func() error { return hostReachesAt(s.ctx, host, pod, address) })
		}
		for _, version := range []string{"-4", "-6"} {
			s.pings(pod, s.hostAddress(host, mastercfg.AccessNetwork, version).String())
		}
	}
}

// flooding is a kind of IPv6 packets to an unknown receiver, or to all: the command that sends one, and the match
// of its receivers.
type flooding struct{ what, send, match string }

var floods = []flooding{
	{"a solicitation of a neighbour that nobody is", "ping -c1 -W0.3 -n -q fd00:7::dead", asksFor("fd00:7::dead")},
	{"a multicast", "ping -c1 -W0.3 -n -q -I eth0 ff15::77", "ip6 daddr ff15::77"},
	{"a broadcast", "ip neigh replace fd00:7::bad lladdr ff:ff:ff:ff:ff:ff dev eth0; ping -c1 -W0.3 -n -q fd00:7::bad", "ether daddr ff:ff:ff:ff:ff:ff ip6 daddr fd00:7::bad"},
}

var unknownMAC = flooding{"what is for a MAC address that nobody has",
	"ip neigh replace fd00:7::beef lladdr 02:00:00:00:00:77 dev eth0; ping -c1 -W0.3 -n -q fd00:7::beef", "ether daddr 02:00:00:00:00:77"}

// solicitationOf returns the solicitation of a pod's address.
func solicitationOf(member netip.Addr) flooding {
	return flooding{"a solicitation of a member", "ip neigh flush dev eth0; ping -c1 -W0.3 -n -q " + member.String(), "ip6 daddr ff02::/16 " + asksFor(member.String())}
}

// asksFor matches solicitations of a neighbour.
func asksFor(address string) string {
	return fmt.Sprintf("icmpv6 type nd-neighbor-solicit @th,64,128 0x%x", netip.MustParseAddr(address).As16())
}

// floodsReachMembers listens in the pods of the sender's network and of another one, on two nodes, and outside, if
// there is an outside. A solicitation of a member reaches others only if switches do not answer it, and packets to
// an unknown MAC address leave on a VLAN, as all members are known. Members are the last pods to be added, so that
// switches update their lists of flood ports when the strangers exist.
func floodsReachMembers(s story, l landscape) {
	s.lan(l, dualStack)
	s.networkOn(l, "dmz", dmzVLAN, "-s 10.1.8.0/24 -g "+dmzRouter4+" -s6 fd00:8::/64 -g6 "+dmzRouter6)
	sender := s.pod(0, "sender", "blue", "lan", "")
	others := []ear{earOf(sender), earOf(s.pod(0, "stranger0", "blue", "dmz", "")), earOf(s.pod(1, "stranger1", "blue", "dmz", ""))}
	member := s.pod(1, "member1", "blue", "lan", "")
	members := []ear{earOf(s.pod(0, "member0", "blue", "lan", "")), earOf(member)}
	var outside []ear
	if l.encap == "vlan" {
		port := s.bed.Outside.Port(s.bed.Nodes[0], 1)
		outside = append(outside, ear{"outside", s.beyond(""), fmt.Sprint(port, ".", lanVLAN)})
		others = append(others, ear{"the other VLAN outside", s.beyond(""), fmt.Sprint(port, ".", dmzVLAN)})
	}
	asked := solicitationOf(s.ipv6Of(member))

	for _, mode := range []string{"proxy", "flood"} {
		if mode == "flood" {
			s.netctlForNow("global set --arp-mode flood", "global set --arp-mode proxy")
		}
		for _, f := range append(floods, unknownMAC, asked) {
			hear, quiet := append(members, outside...), others
			switch {
			case f == asked && mode == "proxy":
				hear, quiet = nil, slices.Concat(hear, others)
			case f == unknownMAC && l.encap == "vlan":
				hear, quiet = outside, slices.Concat(members, others)
			}
			s.isHeard(sender, f, "ARP mode "+mode, hear, quiet)
		}
	}
}

// isHeard has a pod send packets until each of hear has received one, and expects that none of quiet has.
func (s story) isHeard(sender *testbed.Pod, f flooding, when string, hear, quiet []ear) {
	s.Helper()
	all := slices.Concat(hear, quiet)
	for _, e := range all {
		s.listens(e, f.match)
	}
	s.soon(shortly, func() error {
		if _, err := sender.Run(s.ctx, "sh", "-c", f.send+" || :"); err != nil { // most of it nobody answers
			return err
		}
		for _, e := range hear {
			if s.heard(e) == 0 {
				return fmt.Errorf("%s: %s does not hear %s", when, e.name, f.what)
			}
		}
		return nil
	})
	for _, e := range quiet {
		if n := s.heard(e); n > 0 {
			s.Errorf("%s: %s hears %s, %d times", when, e.name, f.what, n)
		}
	}
}

// ear is a link where frames are counted on arrival, before the kernel checks whether they are for it.
type ear struct {
	name string
	at   interface {
		Run(context.Context, ...string) (string, error)
	}
	link string
}

func earOf(p *testbed.Pod) ear { return ear{p.Name, p, "eth0"} }

// listens counts frames of a kind from now on.
func (s story) listens(e ear, match string) {
	s.Helper()
	_, err := e.at.Run(s.ctx, "sh", "-ec", `nft -f - <<END
table netdev `+e.table()+`
delete table netdev `+e.table()+`
table netdev `+e.table()+` {
  counter heard { }
  chain in { type filter hook ingress device "`+e.link+`" priority 0; `+match+` counter name "heard"; }
}
END`)
	s.must(err)
}

// table returns the link's name, with other characters for all but letters and digits.
func (e ear) table() string { return strings.NewReplacer("-", "_", ".", "_").Replace(e.link) }

// heard returns how many frames an ear has counted.
func (s story) heard(e ear) (packets int) {
	s.Helper()
	out, err := e.at.Run(s.ctx, "nft", "list", "counter", "netdev", e.table(), "heard")
	s.must(err)
	_, count, _ := strings.Cut(out, "packets ")
	_, err = fmt.Sscan(count, &packets)
	s.must(err)
	return packets
}
