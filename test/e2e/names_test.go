package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/test/testbed"
)

// namesake makes a tenant with the network, group and addresses of other tenants, and a pod of the group on each
// of the first two nodes.
func (s story) namesake(tenant string) (near, far *testbed.Pod) {
	s.Helper()
	s.tenant(tenant)
	s.netctlForNow(fmt.Sprintf("network create -t %s -s 10.1.1.0/24 -g 10.1.1.254 -s6 fd00:1::/64 -g6 fd00:1::ffff front", tenant), fmt.Sprintf("network rm -t %s front", tenant))
	s.group(tenant, "front", "web")
	return s.pod(0, tenant+"-near", tenant, "front", "web"), s.pod(1, tenant+"-far", tenant, "front", "web")
}

func namesOfTenants(s story) {
	blue, blueFar := s.namesake("blue")
	red, _ := s.namesake("red")
	s.netctlForNow("network create -t red -s 10.1.2.0/24 -g 10.1.2.254 back", "network rm -t red back")
	s.group("red", "back", "db")
	db := s.pod(1, "red-db", "red", "back", "db")
	if blue.IP != red.IP {
		s.Fatalf("the tenants have different addresses: %s and %s", blue.IP, red.IP)
	}
	if got := s.toldByCNI(blue); got != "{[10.1.1.254 fd00:1::ffff] [blue.contiv.internal]}" {
		s.Errorf("the runtime is told to ask %s", got)
	}
	both := blue.IP.String() + " " + blueFar.IP.String()
	s.soon(shortly, func() error { return told(s, blue, both, "web") })
	s.soon(shortly, func() error { return told(s, red, db.IP.String(), "db") })
	s.netctlForNow("service create -t blue -s front -l app=shop -ip 10.1.1.200 -p 80:8080:TCP shop", "service rm -t blue shop")
	s.container("start", blueFar, map[string]string{"app": "shop"})
	provider := blueFar.ContainerID() + ".shop.blue.contiv.internal."
	s.soon(shortly, func() error { return told(s, blue, blueFar.IP.String(), provider) })
	for _, c := range []struct {
		asker *testbed.Pod
		want  string
		args  []string
	}{
		{blue, both, []string{"web.blue.contiv.internal"}},
		{blue, both, []string{"-net", "tcp", "WEB"}},
		{blue, both, []string{"-size", "1232", "web"}},
		{blue, both, []string{"-server", "fd00:1::ffff", "web"}},
		{blue, "fd00:1::1 fd00:1::2", []string{"-type", "AAAA", "web"}},
		{blue, "0 0 80 shop.blue.contiv.internal.", []string{"-type", "SRV", "_80._tcp.shop"}},
		{blue, "0 0 8080 " + provider, []string{"-net", "tcp", "-type", "SRV", "_80._tcp.providers.shop.blue.contiv.internal"}},
		{blue, blueFar.IP.String(), []string{"providers.shop.blue.contiv.internal"}},
		{blue, blueFar.IP.String(), []string{blueFar.ContainerID()}},
		{blue, "shop.blue.contiv.internal.", []string{"-type", "PTR", s.reversed(netip.MustParseAddr("10.1.1.200"))}},
		{blue, blueFar.ContainerID() + ".blue.contiv.internal.", []string{"-type", "PTR", s.reversed(blueFar.IP)}},
		{blue, blueFar.ContainerID() + ".blue.contiv.internal.", []string{"-server", "fd00:1::ffff", "-type", "PTR", s.reversed(s.ipv6Of(blueFar))}},
		{red, "NXDOMAIN", []string{"-type", "SRV", "_80._tcp.shop.blue.contiv.internal"}},
		{red, "NXDOMAIN", []string{"-type", "PTR", s.reversed(netip.MustParseAddr("10.1.1.200"))}},
		{blue, "NXDOMAIN", []string{"db"}},
		{blue, "NXDOMAIN", []string{"db.red.contiv.internal"}},
		{red, db.IP.String(), []string{"-net", "tcp", "-server", "fd00:1::ffff", "db.red.contiv.internal"}},
		{db, both, []string{"-server", "10.1.2.254", "web"}},
		{db, "NXDOMAIN", []string{"-server", "10.1.2.254", "web.blue.contiv.internal"}},
	} {
		if err := told(s, c.asker, c.want, c.args...); err != nil {
			s.Error(err)
		}
	}

	// Names unknown here are resolved by the host's name servers, in their present configuration.
	node := blue.Node
	_, err := node.Start("resolver", blue.Probe(), "resolver", "-listen", "127.0.0.7:53", "www.example.org=192.0.2.7")
	s.must(err)
	s.resolves(node, "127.0.0.7")
	s.soon(shortly, func() error { return told(s, blue, "192.0.2.7", "www.example.org") })
	s.must(told(s, red, "NXDOMAIN", "-net", "tcp", "no.example.org"))

	inspected, err := agentTells(s.ctx, node, "/inspect/nameserver")
	s.must(err)
	if !strings.Contains(inspected.body, `"endpointGroups":{"web":["ipv4:`+blue.IP.String()) || !strings.Contains(inspected.body, `"foundNameRecord":`) {
		s.Errorf("the node's inspection: %s", inspected.body)
	}
}

// reversed returns the name for the reverse lookup of an address.
func (s story) reversed(a netip.Addr) string {
	s.Helper()
	name, err := dns.ReverseAddr(a.String())
	s.must(err)
	return name
}

// told returns an error unless the answer to a pod's query is the wanted one. The name is the last argument; the
// pod's gateway is asked unless the others name a server.
func told(s story, asker *testbed.Pod, want string, args ...string) error {
	args = append([]string{"resolve", "-server", asker.Gateway.String()}, args...)
	out, err := asker.Run(s.ctx, append([]string{asker.Probe()}, args...)...)
	if err != nil {
		return err
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		return err
	}
	if name := args[len(args)-1]; got[name] != want {
		return fmt.Errorf("%s asks %v and is told %q, want %q", asker.Name, args, got[name], want)
	}
	return nil
}

func namesGoOn(s story) {
	blue, blueFar := s.namesake("blue")
	red, _ := s.namesake("red")
	both := blue.IP.String() + " " + blueFar.IP.String()
	s.reachEachOther(shortly, blue, blueFar)
	s.soon(shortly, func() error { return told(s, blue, both, "web") })
	s.withoutLoss(blue, blueFar, func() {
		s.must(blue.Node.Netplugin().Kill())
		s.must(blue.Node.StartNetplugin())
		s.soon(shortly, func() error { return told(s, blue, both, "web") })
		s.must(blue.Node.WaitReady(s.ctx))
	})

	// A bounded flood: the switch drops what exceeds the limit of its port.
	flood, err := red.Start("flood-"+red.Name, red.Probe(), "questions", "-server", red.Gateway.String(), "-flood", "30000", "-for", shortly.String(), "web")
	s.must(err)
	defer func() { s.must(flood.Kill()) }()
	s.soon(shortly, func() error {
		out, err := red.Node.Run(s.ctx, "ovs-ofctl", "-O", "OpenFlow13", "meter-stats", "contivVxlanBridge")
		if err == nil && !droppedQuestions.MatchString(out) {
			err = fmt.Errorf("no question is dropped:\n%s", out)
		}
		return err
	})
	s.soon(shortly, func() error { return told(s, blue, both, "web") })
}

// The name server's addresses in bridged networks.
const wellKnown4, wellKnown6 = "169.254.0.1", "fd63:6f6e:7469:7600::1"

func namesInBridgedNetworks(s story) {
	s.netctlForNow("global set --fwd-mode bridge", "global set --fwd-mode routing")
	s.tenant("blue")
	s.onVLAN("lan", lanVLAN, lanRouter4, lanRouter6)
	s.netctlForNow("network create -t blue -s 10.1.9.0/24 -s6 fd00:9::/64 inner", "network rm -t blue inner")
	s.group("blue", "lan", "web")
	lan1, lan2 := s.pod(0, "lan1", "blue", "lan", "web"), s.pod(1, "lan2", "blue", "lan", "web")
	inner := s.pod(0, "inner1", "blue", "inner", "") // in a network without a router
	both := lan1.IP.String() + " " + lan2.IP.String()
	for _, asker := range []*testbed.Pod{lan1, inner} {
		if got, want := s.toldByCNI(asker), fmt.Sprintf("{[%s %s] [blue.contiv.internal]}", wellKnown4, wellKnown6); got != want {
			s.Errorf("the runtime of %s is told to ask %s, want %s", asker.Name, got, want)
		}
		s.soon(shortly, func() error { return told(s, asker, both, "-server", wellKnown4, "web") })
		for _, args := range [][]string{
			{"-server", wellKnown4, "-net", "tcp", "web.blue.contiv.internal"},
			{"-server", wellKnown6, "web"},
			{"-server", wellKnown6, "-net", "tcp", "web"},
		} {
			if err := told(s, asker, both, args...); err != nil {
				s.Error(err)
			}
		}
		s.pings(asker, wellKnown4)
		s.pings(asker, wellKnown6)
	}
	// Without its own route, a pod's queries go to its router, and no further than the switch.
	_, err := lan1.Run(s.ctx, "ip", "route", "del", wellKnown4)
	s.must(err)
	s.must(told(s, lan1, both, "-server", wellKnown4, "web"))
	s.pings(lan1, lanRouter4) // which gets no other packets
	s.withoutLoss(lan1, lan2, func() {
		s.must(lan1.Node.Netplugin().Kill())
		s.must(lan1.Node.StartNetplugin())
		s.must(lan1.Node.WaitReady(s.ctx))
		s.soon(shortly, func() error { return told(s, inner, both, "-server", wellKnown4, "web") })
	})
}

func namesOnRoutedVLANs(s story) {
	s.tenant("blue")
	s.netctlForNow("network create -t blue -e vlan -p 107 -s 10.1.7.0/24 -g 10.1.7.254 -s6 fd00:7::/64 -g6 fd00:7::fe web", "network rm -t blue web")
	s.group("blue", "web", "front")
	near, far := s.pod(0, "near", "blue", "web", "front"), s.pod(1, "far", "blue", "web", "front")
	if got := s.toldByCNI(near); got != "{[10.1.7.254 fd00:7::fe] [blue.contiv.internal]}" {
		s.Errorf("the runtime is told to ask %s", got)
	}
	both := near.IP.String() + " " + far.IP.String()
	s.soon(shortly, func() error { return told(s, near, both, "front") })
	s.must(told(s, far, both, "-server", "fd00:7::fe", "-net", "tcp", "front"))
}

// toldByCNI returns the name servers and search domains in the CNI result of a pod.
func (s story) toldByCNI(pod *testbed.Pod) string {
	s.Helper()
	result, err := pod.CNI(s.ctx, "add") // of what is attached
	s.must(err)
	var answer struct {
		DNS struct{ Nameservers, Search []string }
	}
	s.must(json.Unmarshal([]byte(result), &answer))
	return fmt.Sprint(answer.DNS)
}

// droppedQuestions matches a meter of queries that has dropped some.
var droppedQuestions = regexp.MustCompile(`meter:19[6-9]\d+ [^\n]*\n\s*0: packet_count:[1-9]`)
