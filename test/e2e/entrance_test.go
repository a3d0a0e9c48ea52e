package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

var entranceChapters = []chapter{
	{"a host, and who comes in by it, reaches a service whose providers are on any node, by IPv4 and IPv6", hostsReachAService},
}

// Addresses of the service of this story.
const (
	outsideVIP, outsideVIP6     = "198.51.100.80", "2001:db8:80::1"
	tcpNodePort, udpNodePort    = "30080", "30007"
	serviceVIPv6                = "fd00:2::c8"
	worldGateway, worldGateway6 = "203.0.113.1", "2001:db8:113::1"
	worldAddress6               = "2001:db8:113::2"
)

func hostsReachAService(s story) {
	s.tenant("blue")
	s.netctlForNow("network create -t blue -s 10.1.2.0/24 -g 10.1.2.254 -s6 fd00:2::/64 -g6 fd00:2::fe shop", "network rm -t blue shop")
	s.netctlForNow("service create -t blue -s shop -l app=web -ip "+serviceVIP+" -ip6 "+serviceVIPv6+" -x "+outsideVIP+" -x "+outsideVIP6+
		" -p "+tcpPort+":80:TCP -p "+echoPort+":7:UDP -n "+tcpNodePort+":"+tcpPort+":TCP -n "+udpNodePort+":"+echoPort+":UDP web", "service rm -t blue web")
	near, far := s.bed.Nodes[0], s.bed.Nodes[1]
	at := func(address, tcp, udp string) []string {
		return []string{"-tcp", net.JoinHostPort(address, tcp), "-udp", net.JoinHostPort(address, udp)}
	}
	fromHost := func(n *testbed.Node) func(...string) (string, error) {
		return func(args ...string) (string, error) {
			return n.Run(s.ctx, append([]string{n.Tool("probe")}, args...)...)
		}
	}
	s.serverOutside(near, "1", "1")
	s.worldHasIPv6(near)
	fromWorld := func(args ...string) (string, error) {
		return near.Run(s.ctx, append([]string{"ip", "netns", "exec", "world", near.Tool("probe")}, args...)...)
	}
	everybody := func(providers ...string) {
		s.Helper()
		for _, test := range []struct {
			who  string
			from func(...string) (string, error)
			at   []string
		}{
			{"a host", fromHost(near), at(outsideVIP, tcpPort, echoPort)},
			{"a host by IPv6", fromHost(near), at(outsideVIP6, tcpPort, echoPort)},
			{"a host by its own node port", fromHost(near), at(near.MgmtIP, tcpNodePort, udpNodePort)},
			{"a host by another's node port", fromHost(far), at(near.MgmtIP, tcpNodePort, udpNodePort)},
			{"a host by its own node port by IPv6", fromHost(near), at(worldGateway6, tcpNodePort, udpNodePort)},
			{"the world by a host", fromWorld, at(outsideVIP, tcpPort, echoPort)},
			{"the world by a host and IPv6", fromWorld, at(outsideVIP6, tcpPort, echoPort)},
			{"the world by a node port", fromWorld, at(worldGateway, tcpNodePort, udpNodePort)},
			{"the world by a node port and IPv6", fromWorld, at(worldGateway6, tcpNodePort, udpNodePort)},
		} {
			s.soon(shortly, func() error { return answeredBy(test.from, test.at, providers) })
			if s.Failed() {
				s.Fatal(test.who)
			}
		}
	}
	distant := s.sandbox(1, "distant", "blue", "shop", "") // near has no endpoint of the tenant
	distant.Labels = map[string]string{"app": "web"}
	s.must(distant.Attach(s.ctx))
	s.serve(distant)
	everybody("distant")
	local := s.sandbox(0, "local", "blue", "shop", "")
	s.must(local.AttachDirectly(s.ctx, "app=web,tier=1"))
	s.serve(local)
	everybody("distant", "local")
	s.servedBy([]*testbed.Pod{local}, "distant", "local")

	// Netplugin need not run, and accepts the state that it finds.
	s.must(near.Netplugin().Kill())
	everybody("distant", "local")
	s.must(near.StartNetplugin())
	s.must(near.WaitReady(s.ctx))
	everybody("distant", "local")

	// In an infra network the host is an endpoint of the tenant, and so a client like others.
	s.netctlForNow("network create -t blue --nw-type infra -s 10.9.0.0/24 -g 10.9.0.254 contivh1", "network rm -t blue contivh1")
	s.soon(shortly, func() error {
		return answeredBy(fromHost(near), at(serviceVIP, tcpPort, echoPort), []string{"distant", "local"})
	})

	// Without providers, clients are refused.
	s.netctl(strings.Fields("service create -t blue -s shop -l app=none -ip " + serviceVIP + " -x " + outsideVIP + " -p " + tcpPort + ":80:TCP web")...)
	s.soon(shortly, func() error {
		out, err := near.Run(s.ctx, "bash", "-c", "exec 3<>/dev/tcp/"+outsideVIP+"/"+tcpPort)
		if err == nil || !strings.Contains(out+err.Error(), "Connection refused") {
			return fmt.Errorf("the host is not refused: %s, %v", out, err)
		}
		return nil
	})
	s.pings(near, outsideVIP)
}

// worldHasIPv6 gives the machine outside, behind the host, an IPv6 address as well, and default routes by the
// host.
func (s story) worldHasIPv6(host *testbed.Node) {
	s.Helper()
	_, err := host.Run(s.ctx, "sh", "-ec", `
ip address add `+worldGateway6+`/64 dev world nodad
ip -n world address add `+worldAddress6+`/64 dev eth0 nodad
ip -n world route add default via `+worldGateway+`
ip -n world route add default via `+worldGateway6)
	s.must(err)
}

// answeredBy returns nil if all of the providers answer a client at each of the addresses, and else what is
// missing.
func answeredBy(probe func(...string) (string, error), at []string, providers []string) error {
	seen := map[string]bool{}
	for range 12 * len(providers) {
		out, err := probe(append([]string{"reach", "-wait", time.Second.String()}, at...)...)
		if err != nil {
			return err
		}
		var answers map[string]string
		if err := json.Unmarshal([]byte(out), &answers); err != nil {
			return fmt.Errorf("%s: %w", out, err)
		}
		for where, who := range answers {
			seen[where+" "+who] = true
		}
		if len(seen) == len(providers)*len(at)/2 {
			break
		}
	}
	for i := 1; i < len(at); i += 2 {
		for _, p := range providers {
			if !seen[at[i]+" "+p] || len(seen) != len(providers)*len(at)/2 {
				return fmt.Errorf("%v: want answers of %v, got %v", at, providers, seen)
			}
		}
	}
	return nil
}
