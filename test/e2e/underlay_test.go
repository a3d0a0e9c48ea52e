package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// Pods of both IP families reach each other between nodes that tunnel over IPv6, and so do broadcasts in a
// network.
func TestLongTheTunnelMayBeOfIPv6(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 2})
	for i, n := range bed.Nodes {
		n.VTEPIP = fmt.Sprintf("fd99::%d", i+1)
		if _, err := n.Run(ctx, "ip", "address", "add", n.VTEPIP+"/64", "dev", "br-phy", "nodad"); err != nil {
			t.Fatal(err)
		}
	}
	startDaemons(t, ctx, bed)
	t.Run("routed", func(t *testing.T) { playOn(t, bed, overIPv6) })
	t.Run("bridged", func(t *testing.T) {
		playOn(t, bed, func(s story) { floodsReachMembers(s, landscape{"bridge", "vxlan"}) })
	})
}

// Nodes may know each other by IPv6 only: netmasters, the members of their store, agents and tunnels.
func TestLongNodesMayHaveAddressesOfIPv6Only(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 2, Secure: true, OnlyIPv6: true})
	startDaemons(t, ctx, bed)
	if _, err := bed.Leader(ctx); err != nil {
		t.Error(err)
	}
	playOn(t, bed, overIPv6)
}

func overIPv6(s story) {
	s.tenant("blue")
	s.netctlForNow("network create -t blue -s 10.1.1.0/24 -g 10.1.1.254 -s6 fd00:1::/64 -g6 fd00:1::fe both", "network rm -t blue both")
	a, b := s.pod(0, "a", "blue", "both", ""), s.pod(1, "b", "blue", "both", "")
	s.reachEachOther(shortly, a, b)
	s.reachByIPv6([]*testbed.Pod{a, b})
	out, err := a.Run(s.ctx, "cat", "/sys/class/net/eth0/mtu")
	s.must(err)
	if strings.TrimSpace(out) != "1430" {
		s.Errorf("MTU %s, want that of the underlay less 70", out)
	}
	s.pings(a, "-M", "do", "-s", "1402", b.IP.String())
	s.withoutLoss(a, b, func() {
		s.must(b.Node.Netplugin().Kill())
		s.must(b.Node.StartNetplugin())
		s.must(b.Node.WaitReady(s.ctx))
	})
}
