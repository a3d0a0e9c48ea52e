package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/test/testbed"
)

const (
	announced4 = "10.1.7.201"
	announced6 = "fd00:7::c9"
)

// servicesAreAnnounced expects that a machine behind the router is served by nodes with providers, and that the
// router has routes to these nodes alone.
func (s story) servicesAreAnnounced(inWorld func(...string) []string, here, there *testbed.Pod) {
	s.Helper()
	s.netctlForNow("service create -t blue -s routed -l app=announced -ip "+announced4+" -ip6 "+announced6+
		" -p "+tcpPort+":"+tcpPort+":TCP -p "+echoPort+":7:UDP announced", "service rm -t blue announced")
	labels := map[string]string{"app": "announced"}
	world := func(args ...string) (string, error) {
		return s.bed.Outside.Run(s.ctx, inWorld(append([]string{here.Probe()}, args...)...)...)
	}
	servedBy := func(pod *testbed.Pod) {
		s.Helper()
		want := map[string]string{"ping": "pong", "tcp": pod.Name, "udp": pod.Name}
		for _, vip := range []string{announced4, announced6} {
			s.soon(shortly, func() error {
				got, err := answersOf(netip.MustParseAddr(vip), time.Second, world)
				for kind, who := range want {
					if err == nil && got[kind] != who {
						err = fmt.Errorf("the world asks at %s and gets %v, want %v", vip, got, want)
					}
				}
				return err
			})
		}
	}
	announcedBy := func(nodes ...*testbed.Node) {
		s.Helper()
		for _, n := range s.bed.Nodes {
			s.soon(shortly, func() error {
				out, err := s.bed.Netctl(s.ctx, "bgp", "inspect", n.Name)
				var told contivmodel.BgpInspect
				if err == nil {
					err = json.Unmarshal([]byte(out), &told)
				}
				for _, prefix := range []string{announced4 + "/32", announced6 + "/128"} {
					if err == nil && slices.Contains(told.Oper.Announced, prefix) != slices.Contains(nodes, n) {
						err = fmt.Errorf("%s announces %v", n.Name, told.Oper.Announced)
					}
				}
				return err
			})
		}
		for version, vip := range map[string]string{"-4": announced4, "-6": announced6} {
			s.soon(shortly, func() error {
				out, err := s.bed.Outside.Run(s.ctx, "ip", version, "route", "show", vip)
				if err == nil && (strings.TrimSpace(out) == "") != (len(nodes) == 0) {
					err = fmt.Errorf("the router's route to %s: %q", vip, out)
				}
				return err
			})
		}
	}

	announcedBy()
	s.container("start", there, labels)
	announcedBy(there.Node)
	servedBy(there)
	refused, err := s.bed.Outside.Run(s.ctx, inWorld("timeout", "10", "bash", "-c", "! : 2>&1 </dev/tcp/"+announced4+"/81")...)
	if err != nil || !strings.Contains(refused, "refused") {
		s.Errorf("a port that the service does not have: %v %q", err, refused)
	}

	s.container("start", here, labels)
	announcedBy(here.Node, there.Node)
	s.container("die", there, nil)
	announcedBy(here.Node)
	servedBy(here)

	s.netctl(strings.Fields("service create -t blue -s routed -l app=nobody -ip " + announced4 + " -ip6 " + announced6 +
		" -p " + tcpPort + ":" + tcpPort + ":TCP -p " + echoPort + ":7:UDP announced")...)
	announcedBy() // a draining provider gets no new connections
	s.container("die", here, nil)
}
