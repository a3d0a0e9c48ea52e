package life

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testbed"
)

// What comes to an address of a node is for a service where it has the port there: a datagram in fragments at a node port, and what is for
// the address of a load balancer, which it has put on an interface of a node, as kube-vip does. Other ports there are the node's, connections
// go on when netplugin is killed, and the address may be taken to another node.
func TestWhatComesToAnAddressOfANodeIsForItsServices(t *testing.T) {
	s := begin(t, 2, 2*podLimit)
	server, first, second := s.pod("server", 2), s.Nodes[0], s.Nodes[1]
	process, err := server.Start("serve", second.Tool("probe"), "serve", "-name", "server", "-tcp", "80", "-udp", "53", "-echo", "7")
	s.must(err)
	s.Cleanup(func() { _ = process.Kill() })
	own, err := first.Start("own", first.Tool("probe"), "serve", "-name", "own", "-tcp", "7070")
	s.must(err)
	s.Cleanup(func() { _ = own.Kill() })
	ports := []object{{"name": "web", "port": 80}, {"name": "echo", "port": 7}, {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30053}}
	s.must(s.api.Do(s.ctx, http.MethodPost, "/api/v1/namespaces/default/services", object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "balanced"},
		"spec": object{"type": "LoadBalancer", "selector": object{"run": "server"}, "ports": ports}}, nil))
	const large, small = "4000", "0"
	s.answers(second, "udp", first.MgmtIP+":30053", large, "server")
	s.answers(first, "udp", first.MgmtIP+":30053", large, "server")

	network := netip.MustParseAddr(first.MgmtIP).As4()
	network[3] = 200
	vip := netip.AddrFrom4(network).String()
	_, err = s.Kubectl(s.ctx, "patch", "service", "balanced", "--subresource=status", "--type=merge", "--patch",
		fmt.Sprintf(`{"status":{"loadBalancer":{"ingress":[{"ip":%q,"ipMode":"VIP"}]}}}`, vip))
	s.must(err)
	address := func(do string, n *testbed.Node) {
		s.Helper()
		_, err := n.Run(s.ctx, "ip", "address", do, vip+"/32", "dev", "eth0")
		s.must(err)
	}
	address("add", first)
	for _, from := range []*testbed.Node{second, first} {
		s.answers(from, "tcp", vip+":80", small, "server")
		s.answers(from, "udp", vip+":53", large, "server")
		s.answers(from, "tcp", vip+":7070", small, "own")
	}
	begun := cluster.Sender{Name: second.Name, Node: second, Start: second.Start}
	sent, err := begun.During(s.ctx, vip+":7", func() error {
		if err := first.Netplugin().Kill(); err != nil {
			return err
		}
		if err := first.StartNetplugin(); err != nil {
			return err
		}
		return first.WaitReady(s.ctx)
	}, "-tcp")
	if s.must(err); sent.Lost > 0 {
		t.Errorf("a connection to %s loses %+v while netplugin is killed there", vip, sent)
	}
	s.answers(second, "tcp", vip+":80", small, "server")

	address("del", first)
	address("add", second)
	_, err = first.Run(s.ctx, "ip", "neighbour", "flush", "to", vip) // kube-vip tells neighbours
	s.must(err)
	for _, from := range []*testbed.Node{first, second} {
		s.answers(from, "tcp", vip+":80", small, "server")
		s.answers(from, "udp", vip+":53", large, "server")
	}
}

// answers waits until a node is answered by somebody; datagrams are so large.
func (s *story) answers(from *testbed.Node, kind, target, size, by string) {
	s.Helper()
	s.soon(func() error {
		out, err := from.Run(s.ctx, from.Tool("probe"), "reach", "-wait", "3s", "-packet", size, "-"+kind, target)
		if err != nil {
			return err
		}
		var found map[string]string
		if err := json.Unmarshal([]byte(out), &found); err != nil {
			return err
		}
		if !strings.HasPrefix(found[target], by) {
			return fmt.Errorf("%s asks %s by %s, and is answered %q, want %q", from.Name, target, kind, found[target], by)
		}
		return nil
	})
}
