package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/test/testbed"
)

var tenantChapters = []chapter{
	{"sixty pods made at once get the right network, an address of their own and a gateway that answers", sixtyPods},
	{"tenants with equal addresses never meet, by ping, connection or datagram", equalAddresses},
	{"who forges the address of another gets nowhere", forgedAddresses},
	{"tenants with equal addresses and names are told their own, and what others know", namesOfTenants},
}

// networkChapters count datagrams.
var networkChapters = []chapter{
	{"bridged networks reach and flood to their own, by policy, while the ARP mode changes and an agent restarts", bridgedNetworks},
	{"networks with IPv6 only reach each other through their gateways, by policy, while an agent restarts", networksWithIPv6Only},
	{"names are told again after an agent was killed, and to those beside one who floods", namesGoOn},
}

// home is a network with pods.
type home struct{ tenant, network, group, subnet string }

var homes = []home{
	{"blue", "front", "web", "10.1.1.0/24"},
	{"blue", "back", "", "10.1.2.0/24"},
	{"red", "front", "", "10.1.1.0/24"},
	{"red", "deep", "db", "10.9.0.0/24"},
}

// manyPods is the number of pods made at once.
const manyPods = 60

func sixtyPods(s story) {
	s.tenant("blue")
	s.tenant("red")
	for _, h := range homes {
		s.network(h.tenant, h.network, h.subnet)
		if h.group != "" {
			s.group(h.tenant, h.network, h.group)
		}
	}
	pods := make([]*testbed.Pod, manyPods)
	for i := range pods {
		h := homes[i%len(homes)]
		pods[i] = s.sandbox(i%len(s.bed.Nodes), fmt.Sprintf("pod%d", i), h.tenant, h.network, h.group)
	}
	started := time.Now()
	s.all(pods, func(p *testbed.Pod) error { return p.Attach(s.ctx) })
	s.Logf("%d ADDs at once took %s", manyPods, time.Since(started))

	seen := map[string]string{} // tenant, network and address -> pod
	for i, p := range pods {
		subnet := netip.MustParsePrefix(homes[i%len(homes)].subnet)
		if !subnet.Contains(p.IP) {
			s.Errorf("%s of %s/%s has %s, which is not in %s", p.Name, p.Tenant, p.Network, p.IP, subnet)
		}
		place := strings.Join([]string{p.Tenant, p.Network, p.IP.String()}, "/")
		if other := seen[place]; other != "" {
			s.Errorf("%s and %s are both at %s", other, p.Name, place)
		}
		seen[place] = p.Name
	}
	s.all(pods, func(p *testbed.Pod) error {
		_, err := p.Run(s.ctx, "ping", "-c3", "-i0.2", "-W30", "-n", "-q", p.Gateway.String())
		return err
	})
	s.all(pods, func(p *testbed.Pod) error {
		_, err := p.CNI(s.ctx, "del")
		return err
	})
	s.soon(shortly, func() error { return endpoints(s.ctx, s.bed, 0) })
}

// all does something to all pods at once and fails the story with the first error.
func (s story) all(pods []*testbed.Pod, do func(*testbed.Pod) error) {
	s.Helper()
	var g errgroup.Group
	for _, p := range pods {
		g.Go(func() error { return do(p) })
	}
	s.must(g.Wait())
}

// twins makes two pods in each of two tenants, on two nodes, that have the same
// two addresses.
func (s story) twins() (blue, red [2]*testbed.Pod) {
	s.Helper()
	for tenant, pods := range map[string]*[2]*testbed.Pod{"blue": &blue, "red": &red} {
		s.tenant(tenant)
		s.network(tenant, "front", "10.1.1.0/24")
		for node := range pods {
			pods[node] = s.pod(node, tenant+strconv.Itoa(node), tenant, "front", "")
		}
	}
	if blue[0].IP != red[0].IP || blue[1].IP != red[1].IP {
		s.Fatalf("want the same addresses in both tenants: %s %s, %s %s", blue[0].IP, blue[1].IP, red[0].IP, red[1].IP)
	}
	return blue, red
}

func equalAddresses(s story) {
	blue, red := s.twins()
	only := s.pod(2, "only", "blue", "front", "") // at an address that red has not
	s.reachEachOther(shortly, blue[0], blue[1], only)
	s.reachEachOther(shortly, red[:]...)
	var asking sync.WaitGroup
	for _, stranger := range red {
		asking.Go(func() {
			got, err := ask(s.ctx, stranger, only.IP, 2*time.Second)
			if err != nil {
				s.Error(err)
			}
			for way, who := range got {
				if who != "" {
					s.Errorf("%s of red reaches %s of blue by %s", stranger.Name, only.Name, way)
				}
			}
		})
	}
	asking.Wait()
}

// forgeries is the number of datagrams of each kind.
const forgeries = 20

func forgedAddresses(s story) {
	blue, red := s.twins()
	villain, victim, target := blue[0], s.pod(0, "victim", "blue", "front", ""), blue[1]
	s.reachEachOther(shortly, villain, victim, target)
	s.reachEachOther(shortly, red[:]...)
	alien := s.pod(0, "alien", "red", "front", "") // has the victim's addresses, in red
	if alien.IP != victim.IP {
		s.Fatalf("want one address in both tenants: %s, %s", alien.IP, victim.IP)
	}
	own, other, gateway := macOf(villain.IP), macOf(victim.IP), "00:00:11:11:11:11"

	honest := forgery{ethSrc: own, ethDst: macOf(target.IP), ipSrc: villain.IP, ipDst: target.IP}
	if got := s.forge(villain, target, honest); got != forgeries {
		s.Fatalf("of %d honest datagrams %d arrive: the test cannot tell anything", forgeries, got)
	}
	for what, f := range map[string]forgery{
		"another's IP address":         {own, macOf(target.IP), victim.IP, target.IP},
		"another's MAC address":        {other, macOf(target.IP), villain.IP, target.IP},
		"both addresses of another":    {other, macOf(target.IP), victim.IP, target.IP},
		"another's IP, by the gateway": {own, gateway, victim.IP, target.IP},
		"the gateway's MAC address":    {gateway, macOf(target.IP), villain.IP, target.IP},
		"a stranger's IP address":      {own, macOf(target.IP), netip.MustParseAddr("203.0.113.9"), target.IP},
	} {
		if got := s.forge(villain, target, f); got != 0 {
			s.Errorf("with %s, %d of %d datagrams arrive", what, got, forgeries)
		}
	}
	// A pod of the other tenant with the same addresses as the victim.
	inBlue := forgery{macOf(victim.IP), macOf(target.IP), victim.IP, target.IP}
	if got := s.forge(alien, target, inBlue); got != 0 {
		s.Errorf("%d datagrams of red arrive in blue", got)
	}
	// A false claim of the victim's address changes nothing for the others.
	_, err := villain.Run(s.ctx, villain.Probe(), "forge", "-dev", "eth0", "-arp", "-count", strconv.Itoa(forgeries),
		"-eth-src", own, "-eth-dst", "ff:ff:ff:ff:ff:ff", "-ip-src", victim.IP.String(), "-ip-dst", victim.IP.String())
	s.must(err)
	s.reachEachOther(shortly, villain, victim, target)
}

// forgery is the header of a datagram.
type forgery struct {
	ethSrc, ethDst string
	ipSrc, ipDst   netip.Addr
}

// forge sends datagrams to the echo port and returns how many the target received: an answered request behind them
// shows that they have arrived.
func (s story) forge(from, target *testbed.Pod, f forgery) int {
	s.Helper()
	before := s.forgedDatagrams(target)
	_, err := from.Run(s.ctx, from.Probe(), "forge", "-dev", "eth0", "-port", echoPort, "-count", strconv.Itoa(forgeries),
		"-eth-src", f.ethSrc, "-eth-dst", f.ethDst, "-ip-src", f.ipSrc.String(), "-ip-dst", f.ipDst.String())
	s.must(err)
	s.soon(shortly, func() error {
		got, err := ask(s.ctx, from, target.IP, 500*time.Millisecond)
		if err == nil && got["udp"] == "" {
			err = fmt.Errorf("%s gets no answer from %s", from.Name, target.IP)
		}
		return err
	})
	return s.forgedDatagrams(target) - before
}

// forgedDatagrams counts the forged datagrams in the log of a pod's server.
func (s story) forgedDatagrams(pod *testbed.Pod) int {
	s.Helper()
	log, err := os.ReadFile(pod.Node.LogFile(pod.Name))
	s.must(err)
	return strings.Count(string(log), "forged datagram from")
}

// macOf returns the MAC address of a pod's IPv4 address.
func macOf(ip netip.Addr) string {
	a := ip.As4()
	return fmt.Sprintf("02:02:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3])
}
