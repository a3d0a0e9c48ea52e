package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testbed"
)

// whatIsBrokenIsNamed breaks what the node of a pod gets from others: its name servers, and its cable, and with
// that its session with the external router.
func (s story) whatIsBrokenIsNamed(pod *testbed.Pod) {
	s.Helper()
	node := pod.Node
	resolver, err := node.Start("resolver", pod.Probe(), "resolver", "-listen", "127.0.0.7:53", "www.example.org=192.0.2.7")
	s.must(err)
	s.afterwards(func(context.Context) error { return resolver.Kill() })
	s.resolves(node, "127.0.0.7")
	s.soon(shortly, func() error { return told(s, pod, "192.0.2.7", "www.example.org") })
	s.checksAll()

	// A foreign name server that fails is no fault of the node, and is named.
	s.resolves(node, "127.0.0.77")
	s.soon(shortly, func() error { return told(s, pod, "SERVFAIL", "no.example.org") })
	s.checks(node, "names", true, "name server 127.0.0.77:53")
	s.resolves(node, "127.0.0.7")
	s.soon(shortly, func() error { return told(s, pod, "NXDOMAIN", "no.example.org") })

	port := s.bed.Outside.Port(node, 1)
	_, err = s.bed.Outside.Run(s.ctx, "ip", "link", "set", port, "down")
	s.must(err)
	s.checks(node, "uplinks", false, testbed.UplinkName(1))
	s.checks(node, "bgp", false, fmt.Sprintf("no session with %s of AS %d", routerAddress, routerAS))
	s.checks(s.otherThan(node), "uplinks", true, testbed.UplinkName(1))
	_, err = s.bed.Outside.Run(s.ctx, "ip", "link", "set", port, "up")
	s.must(err)
	s.checksAll()
}

// checksAll expects that netctl soon reports no fault, and has checked what the story breaks.
func (s story) checksAll() {
	s.Helper()
	s.soon(shortly, func() error {
		out, err := s.bed.Netctl(s.ctx, "check")
		for _, what := range []string{"uplinks", "bgp", "names"} {
			if err == nil && !strings.Contains(out, "ok    "+what+" "+s.bed.Nodes[0].Name) {
				err = fmt.Errorf("nothing of %s", what)
			}
		}
		if err != nil {
			err = fmt.Errorf("netctl check: %w %s", err, out)
		}
		return err
	})
}

// resolves configures a name server for names that are unknown here at a node, until the story is over.
func (s story) resolves(n *testbed.Node, server string) {
	s.Helper()
	old, err := n.Run(s.ctx, "sh", "-ec", `cat /etc/resolv.conf; echo "nameserver $1" > /etc/resolv.conf`, "sh", server)
	s.must(err)
	s.afterwards(func(ctx context.Context) error {
		_, err := n.Run(ctx, "sh", "-ec", `printf %s "$1" > /etc/resolv.conf`, "sh", old)
		return err
	})
}

// checks expects that netctl soon reports something of a node as well or as faulty, with these texts, and a hint
// if it is faulty.
func (s story) checks(n *testbed.Node, what string, well bool, says ...string) {
	s.Helper()
	s.soon(shortly, func() error {
		out, failed := s.bed.Netctl(s.ctx, "check", "-o", "json")
		var all []struct {
			Name, Detail, Hint string
			OK                 bool
		}
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			return fmt.Errorf("netctl check: %w %w", err, failed)
		}
		for _, r := range all {
			told := func(text string) bool { return strings.Contains(r.Detail+"; "+r.Hint, text) }
			if r.Name == what+" "+n.Name && r.OK == well && !slices.ContainsFunc(says, func(text string) bool { return !told(text) }) && (well || r.Hint != "" && failed != nil) {
				return nil
			}
		}
		return fmt.Errorf("want %s of %s well: %v, and %q, got %s %w", what, n.Name, well, says, out, failed)
	})
}

// whatIsWrongHereIsNamed makes faults of a node one after the other, and repairs each when netctl has named it.
func whatIsWrongHereIsNamed(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	pod := s.pod(0, "pod", "blue", "front", "")
	peer := s.pod(1, "peer", "blue", "front", "")
	other, etcd := peer.Node, s.administer(s.bed.Nodes[0])
	own := s.endpointOf(etcd, pod)
	twin := own
	twin.ID, twin.EndpointID, twin.ContainerID, twin.HomingHost = "front.blue-twin", "twin", "twin", other.Name
	host := func(script string) func() {
		return func() {
			s.Helper()
			_, err := pod.Node.Run(s.ctx, "sh", "-ec", script)
			s.must(err)
		}
	}
	for _, fault := range []struct {
		row        string
		says       []string
		make, mend func()
	}{
		{"host", []string{"interface contivh1 is there and is not ours: remove or rename it", "see docs/networking.md, Outside"},
			func() {
				host("ip link add contivh1 type bridge")()
				s.netctlForNow("network create -t blue --nw-type infra -s 10.9.0.0/24 -g 10.9.0.254 contivh1", "network rm -t blue contivh1")
			}, host("ip link delete contivh1")},
		{"objects", []string{"endpoint " + own.ID, "endpoint " + twin.ID, "give it another address, or remove it"},
			func() {
				value, err := json.Marshal(twin)
				s.must(err)
				_, err = etcd.Put(s.ctx, mastercfg.EndpointPrefix+twin.ID, string(value))
				s.must(err)
			}, func() {
				_, err := etcd.Delete(s.ctx, mastercfg.EndpointPrefix+twin.ID)
				s.must(err)
			}},
		{"tunnels", []string{"no answer by the tunnel from " + other.Name + " (" + other.VTEPIP + ")", "have both nodes their --vtep-ip still, on links that are up"},
			host("ip link set uplink down"), host("ip link set uplink up")},
		{"tunnels", []string{"no answer by the tunnel from " + other.Name, "does UDP 4789 (--vxlan-port) pass between them"},
			host(`nft -f - <<END
table netdev firewall {
  chain out { type filter hook egress device "uplink" priority 0; udp dport 4789 drop; }
}
END`), host("nft delete table netdev firewall")},
	} {
		s.soon(shortly, s.allIsWell)
		fault.make()
		s.checks(pod.Node, fault.row, false, fault.says...)
		fault.mend()
	}
	s.soon(shortly, s.allIsWell)
	s.soon(shortly, func() error { return reaches(s.ctx, pod, peer) })
}

// endpointOf returns the record of a pod's endpoint.
func (s story) endpointOf(etcd *clientv3.Client, pod *testbed.Pod) (record mastercfg.CfgEndpointState) {
	s.Helper()
	got, err := etcd.Get(s.ctx, mastercfg.EndpointPrefix, clientv3.WithPrefix())
	s.must(err)
	for _, kv := range got.Kvs {
		if s.must(json.Unmarshal(kv.Value, &record)); record.IPAddress == pod.IP.String() {
			return record
		}
	}
	s.Fatalf("no endpoint has %s of %s", pod.IP, pod.Name)
	return record
}

// allIsWell returns the faults that netctl finds.
func (s story) allIsWell() error {
	out, err := s.bed.Netctl(s.ctx, "check")
	if err != nil {
		err = fmt.Errorf("netctl check: %w %s", err, out)
	}
	return err
}
