package e2e

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// bridgedNetworks plays on a cluster that is routed before and after.
func bridgedNetworks(s story) {
	s.netctlForNow("global set --fwd-mode bridge", "global set --fwd-mode routing")
	blue, red := s.lans()
	s.reachEachOther(shortly, blue...)
	s.reachEachOther(shortly, red...)
	for _, pods := range [][]*testbed.Pod{blue, red} {
		s.reachByIPv6(pods)
	}
	stranger := blue[2].IP // no pod of red has it
	got, err := ask(s.ctx, red[0], stranger, 500*time.Millisecond)
	s.must(err)
	for way, who := range got {
		if who != "" {
			s.Errorf("red reaches %s of blue by %s", stranger, way)
		}
	}

	s.isService("lan", "10.4.0.200", blue[1], blue...)

	// An announcement reaches other pods only where ARP is not answered by proxy.
	_, err = blue[1].Run(s.ctx, "sysctl", "-qw", "net.ipv4.conf.eth0.arp_accept=1")
	s.must(err)
	listener, speaker := blue[1], blue[2] // which may still end an earlier conversation: hence more than one try
	s.soon(shortly, func() error {
		s.forget(listener)
		s.announce(speaker)
		s.broadcast(speaker, map[*testbed.Pod]int{listener: forgeries}) // arrives after the announcement, if that does
		if s.knows(listener, speaker) {
			return fmt.Errorf("%s has heard of %s, although ARP is answered by proxy", listener.Name, speaker.Name)
		}
		return nil
	})

	// blue2 accepts no datagrams from the others: neither direct nor flooded ones.
	s.broadcast(blue[0], map[*testbed.Pod]int{blue[1]: forgeries, blue[2]: forgeries, red[0]: 0, red[1]: 0})
	s.netctl(strings.Fields("policy rule-add -t blue -d in -l udp -P 7 -j deny guard quiet")...)
	s.soon(shortly, func() error { return isGuarded(s.ctx, blue[0], blue[2]) })
	s.broadcast(blue[0], map[*testbed.Pod]int{blue[1]: forgeries, blue[2]: 0, red[0]: 0, red[1]: 0})

	s.withoutLoss(blue[0], blue[1], func() {
		s.netctlForNow("global set --arp-mode flood", "global set --arp-mode proxy")
		s.soon(shortly, func() error {
			s.announce(speaker)
			if !s.knows(listener, speaker) {
				return fmt.Errorf("%s has not heard of %s, although ARP is flooded", listener.Name, speaker.Name)
			}
			return nil
		})
	})
	for _, p := range append(blue, red...) {
		s.forget(p)
	}
	s.reachEachOther(shortly, blue[:2]...)
	s.reachEachOther(shortly, red...)
	s.withoutLoss(blue[0], blue[1], func() {
		s.must(blue[1].Node.Netplugin().Kill())
		s.must(blue[1].Node.StartNetplugin())
		s.must(blue[1].Node.WaitReady(s.ctx))
	})
	s.broadcast(blue[0], map[*testbed.Pod]int{blue[1]: forgeries, blue[2]: 0, red[0]: 0, red[1]: 0})
}

// lans makes a network with the same addresses in two tenants, three pods in the first, on three nodes, and two in
// the other. The last of the three has a policy without rules.
func (s story) lans() (blue, red []*testbed.Pod) {
	s.Helper()
	for _, tenant := range []string{"blue", "red"} {
		s.tenant(tenant)
		s.netctlForNow("network create -t "+tenant+" -s 10.4.0.0/24 -s6 fd00:4::/64 lan", "network rm -t "+tenant+" lan")
	}
	s.netctlForNow("policy create -t blue guard", "policy rm -t blue guard")
	s.netctlForNow("group create -t blue -p guard lan quiet", "group rm -t blue quiet")
	for node, group := range []string{"", "", "quiet"} {
		blue = append(blue, s.pod(node, fmt.Sprint("blue", node), "blue", "lan", group))
	}
	for node := range 2 {
		red = append(red, s.pod(node, fmt.Sprint("red", node), "red", "lan", ""))
	}
	return blue, red
}

// reachByIPv6 pings each pod from the one before it.
func (s story) reachByIPv6(pods []*testbed.Pod) {
	s.Helper()
	for i, to := range pods {
		address, from := s.ipv6Of(to), pods[(i+len(pods)-1)%len(pods)]
		s.pings(from, address.String())
	}
}

// ipv6Of returns a pod's IPv6 address.
func (s story) ipv6Of(p *testbed.Pod) netip.Addr {
	s.Helper()
	out, err := p.Run(s.ctx, "ip", "-6", "-br", "address", "show", "dev", "eth0", "scope", "global")
	s.must(err)
	fields := strings.Fields(out)
	if len(fields) < 3 {
		s.Fatalf("%s has no IPv6 address: %q", p.Name, out)
	}
	return netip.MustParsePrefix(fields[2]).Addr()
}

// broadcast sends broadcast datagrams and compares how many the pods receive.
func (s story) broadcast(from *testbed.Pod, want map[*testbed.Pod]int) {
	s.Helper()
	before := map[*testbed.Pod]int{}
	for p := range want {
		before[p] = s.forgedDatagrams(p)
	}
	_, err := from.Run(s.ctx, from.Probe(), "forge", "-dev", "eth0", "-port", echoPort, "-count", strconv.Itoa(forgeries),
		"-eth-src", macOf(from.IP), "-eth-dst", "ff:ff:ff:ff:ff:ff", "-ip-src", from.IP.String(), "-ip-dst", "255.255.255.255")
	s.must(err)
	s.soon(shortly, func() error {
		for p, n := range want {
			if got := s.forgedDatagrams(p) - before[p]; got < n {
				return fmt.Errorf("%s gets %d of %d broadcasts", p.Name, got, n)
			}
		}
		return nil
	})
	for p, n := range want {
		if got := s.forgedDatagrams(p) - before[p]; got != n {
			s.Errorf("%s gets %d broadcasts, want %d", p.Name, got, n)
		}
	}
}

// forget empties the neighbour table of a pod.
func (s story) forget(p *testbed.Pod) {
	s.Helper()
	_, err := p.Run(s.ctx, "ip", "neigh", "flush", "dev", "eth0")
	s.must(err)
}

// announce has a pod broadcast its own address and MAC by ARP.
func (s story) announce(p *testbed.Pod) {
	s.Helper()
	_, err := p.Run(s.ctx, p.Probe(), "forge", "-dev", "eth0", "-arp",
		"-eth-src", macOf(p.IP), "-eth-dst", "ff:ff:ff:ff:ff:ff", "-ip-src", p.IP.String(), "-ip-dst", p.IP.String())
	s.must(err)
}

// knows reports whether a pod has another in its neighbour table.
func (s story) knows(p, other *testbed.Pod) bool {
	s.Helper()
	out, err := p.Run(s.ctx, "ip", "neigh", "show", "dev", "eth0", "to", other.IP.String())
	s.must(err)
	return strings.Contains(out, macOf(other.IP))
}
