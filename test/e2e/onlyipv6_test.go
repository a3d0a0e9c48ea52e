package e2e

import (
	"fmt"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// networksWithIPv6Only has two pods in one network and one in another.
func networksWithIPv6Only(s story) {
	s.tenant("blue")
	s.netctlForNow("network create -t blue -s6 fd00:6::/64 -g6 fd00:6::fe six", "network rm -t blue six")
	s.netctlForNow("network create -t blue -s6 fd00:7::/64 -g6 fd00:7::fe seven", "network rm -t blue seven")
	s.netctlForNow("policy create -t blue guard", "policy rm -t blue guard")
	s.netctlForNow("group create -t blue -p guard seven quiet", "group rm -t blue quiet")
	pods := []*testbed.Pod{s.pod(0, "six0", "blue", "six", ""), s.pod(1, "six1", "blue", "six", ""), s.pod(2, "seven2", "blue", "seven", "quiet")}
	for _, p := range pods {
		s.hasIPv6Only(p)
		s.pings(p, p.Gateway.String())
	}
	s.reachEachOther(shortly, pods...)
	s.netctl(strings.Fields("policy rule-add -t blue -d in -l tcp -P 80 -n six -j deny guard 1")...)
	s.soon(shortly, func() error {
		got, err := ask(s.ctx, pods[0], pods[2].IP, 500*time.Millisecond)
		if err == nil && (got["tcp"] != "" || got["udp"] != pods[2].Name) {
			err = fmt.Errorf("with TCP denied, %s gets %v from %s", pods[0].Name, got, pods[2].Name)
		}
		return err
	})
	s.withoutLoss(pods[0], pods[2], func() {
		s.must(pods[2].Node.Netplugin().Kill())
		s.must(pods[2].Node.StartNetplugin())
		s.must(pods[2].Node.WaitReady(s.ctx))
	})
	s.reachEachOther(shortly, pods[:2]...)
}

// hasIPv6Only expects addresses of no other IP family.
func (s story) hasIPv6Only(p *testbed.Pod) {
	s.Helper()
	if !p.IP.Is6() || !p.Gateway.Is6() {
		s.Fatalf("%s has address %s and gateway %s", p.Name, p.IP, p.Gateway)
	}
	if out, err := p.Run(s.ctx, "ip", "-4", "address", "show", "dev", "eth0"); err != nil || out != "" {
		s.Errorf("%s has an IPv4 address: %s %v", p.Name, out, err)
	}
}
