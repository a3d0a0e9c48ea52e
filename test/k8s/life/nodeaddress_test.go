package life

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/utils/ports"
)

// Packets to an address of a node are for a service if it has the port there: a datagram in fragments at a node
// port, and packets to the address of a load balancer that puts it on an interface of a node, as kube-vip does.
// Other ports there are the node's, connections go on when netplugin is killed, and the address may be moved to
// another node. A load balancer without addresses of its own assigns those of nodes, whose kubelets and node ports
// keep working; a process that listens at a port of the service is reported, and has the port again when the
// service is deleted.
func TestWhatComesToAnAddressOfANodeIsForItsServices(t *testing.T) {
	s := begin(t, 2, 2*podLimit)
	server, first, second := s.pod("server", 2), s.Nodes[0], s.Nodes[1]
	process, err := server.Start("serve", second.Tool("probe"), "serve", "-name", "server", "-tcp", "80", "-udp", "53", "-echo", "7")
	s.must(err)
	s.Cleanup(func() { _ = process.Kill() })
	own, err := first.Start("own", first.Tool("probe"), "serve", "-name", "own", "-tcp", "7070")
	s.must(err)
	s.Cleanup(func() { _ = own.Kill() })
	served := []object{{"name": "web", "port": 80}, {"name": "echo", "port": 7}, {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30053}}
	s.must(s.api.Do(s.ctx, http.MethodPost, "/api/v1/namespaces/default/services", object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "balanced"},
		"spec": object{"type": "LoadBalancer", "selector": object{"run": "server"}, "ports": served}}, nil))
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

	web := func(name string, port int) object { return object{"name": name, "port": port, "targetPort": 80} }
	spec, err := json.Marshal(object{"spec": object{"ports": append(served, web("kubelet", ports.Kubelet), web("taken", 7070))},
		"status": object{"loadBalancer": object{"ingress": []object{{"ip": first.MgmtIP}, {"ip": second.MgmtIP}}}}})
	s.must(err)
	for _, part := range []string{"", "status"} {
		_, err = s.Kubectl(s.ctx, "patch", "service", "balanced", "--subresource="+part, "--type=merge", "--patch", string(spec))
		s.must(err)
	}
	client := s.pod("client", 1)
	for _, n := range []*testbed.Node{first, second} {
		for _, from := range []asker{first, second, client, server} {
			s.answers(from, "tcp", n.MgmtIP+":80", small, "server")
			s.answers(from, "udp", n.MgmtIP+":53", small, "server")
			s.answers(from, "tcp", n.MgmtIP+":7070", small, "server")
		}
		for _, from := range []asker{first, second} {
			s.answers(from, "udp", n.MgmtIP+":53", large, "server")
			s.answers(from, "udp", n.MgmtIP+":30053", large, "server")
		}
		s.soon(func() error {
			out, err := s.Kubectl(s.ctx, "get", "--raw", "/api/v1/nodes/"+n.Name+"/proxy/healthz")
			if err == nil && out != "ok" {
				err = fmt.Errorf("the kubelet of %s says %q", n.Name, out)
			}
			return err
		})
	}
	s.soon(func() error { return s.toldOfPod(mastercfg.BalancerPortInUse, "default", "balanced") })
	_, err = s.Kubectl(s.ctx, "delete", "service", "balanced")
	s.must(err)
	for _, from := range []asker{first, second, client, server} {
		s.answers(from, "tcp", first.MgmtIP+":7070", small, "own")
	}
}

// asker is a node or a pod.
type asker interface {
	Run(ctx context.Context, args ...string) (string, error)
}

// answers waits until a node or pod gets an answer from a server; datagrams have this size.
func (s *story) answers(from asker, kind, target, size, by string) {
	s.Helper()
	name := ""
	switch from := from.(type) {
	case *testbed.Node:
		name = from.Name
	case *cluster.Pod:
		name = from.Name
	}
	s.soon(func() error {
		out, err := from.Run(s.ctx, s.Nodes[0].Tool("probe"), "reach", "-wait", "3s", "-packet", size, "-"+kind, target)
		if err != nil {
			return err
		}
		var found map[string]string
		if err := json.Unmarshal([]byte(out), &found); err != nil {
			return err
		}
		if !strings.HasPrefix(found[target], by) {
			return fmt.Errorf("%s asks %s by %s, and is answered %q, want %q", name, target, kind, found[target], by)
		}
		return nil
	})
}
