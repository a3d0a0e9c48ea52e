package life

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/k8s/clustertest"
)

// leavingLimit is for a cluster that leaves kube-proxy.
const leavingLimit = 8 * time.Minute

// leaving are the steps of the page with commands.
var leaving = []string{"End it", "Take its rules away", "See that it is gone"}

// A cluster of kubeadm, on which our daemons were installed beside kube-proxy, removes kube-proxy by the commands
// of the page: no packet of a pod, of a process of a node, or of a client of a node port is lost, and connections
// go on.
func TestKubeProxyIsLeftByThePage(t *testing.T) {
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) {
			c := clustertest.Up(t, cluster.Config{Nodes: 3, Install: "one", ByHand: true, First: true}, false)
			s := on(t, c, clustertest.API(t, c), leavingLimit)
			s.must(s.InstallKubeProxy(s.ctx, mode))
			s.kubectl("apply", "--kustomize", s.Installation("here"))
			s.must(s.Settle(s.ctx))
			s.leaveKubeProxy(mode)
		})
	}
}

// echoing is a service with an echo behind it, for datagrams and connections.
const echoing = `
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec:
  type: NodePort
  selector: {run: server}
  ports: [{name: datagrams, protocol: UDP, port: 7}, {name: connections, protocol: TCP, port: 8}]
`

// echo makes such a service, and returns its cluster address, and its node ports at a node.
func (s *story) echo(name, node string) (datagrams, connections, byNode, connectionsByNode string) {
	s.Helper()
	manifest := s.T.TempDir() + "/echo.yaml"
	s.must(os.WriteFile(manifest, []byte(strings.ReplaceAll(echoing, "NAME", name)), 0o600))
	s.kubectl("apply", "--filename", manifest)
	said := strings.Fields(s.kubectl("get", "service", name, "-o", "jsonpath={.spec.clusterIP} {.spec.ports[*].nodePort}"))
	if len(said) != 3 {
		s.Fatalf("service %s: %q", name, said)
	}
	return net.JoinHostPort(said[0], "7"), net.JoinHostPort(said[0], "8"), net.JoinHostPort(node, said[1]), net.JoinHostPort(node, said[2])
}

func (s *story) kubectl(args ...string) string {
	s.Helper()
	out, err := s.Kubectl(s.ctx, args...)
	s.must(err)
	return out
}

func (s *story) leaveKubeProxy(mode string) {
	s.Helper()
	client, server, node, far := s.pod("client", 1), s.pod("server", 2), s.Nodes[0], s.Nodes[2]
	_, err := server.Start("echo", server.Node.Tool("probe"), "serve", "-udp", "7", "-echo", "8")
	s.must(err)
	pod, process, comer := cluster.Sender{Name: "pod", Node: node, Start: client.Start}, cluster.Sender{Name: "process", Node: node, Start: node.Start},
		cluster.Sender{Name: "comer", Node: far, Start: far.Start}
	type stream struct {
		from cluster.Sender
		run  func(context.Context, ...string) (string, error)
		to   string
		how  []string
	}
	steady := []string{"-interval", "3ms"} // a third of what fills two processors: the API server needs some
	overTCP := append([]string{"-tcp"}, steady...)
	fresh := []string{"-fresh", "-interval", "10ms"} // each datagram in a flow of its own
	streamsTo := func(name string) []stream {
		at, connection, byNode, connectionByNode := s.echo(name, node.MgmtIP)
		return []stream{
			{pod, client.Run, at, steady}, {pod, client.Run, at, fresh}, {pod, client.Run, connection, overTCP},
			{process, node.Run, at, steady}, {process, node.Run, at, fresh}, {process, node.Run, connection, overTCP},
			{comer, far.Run, byNode, steady}, {comer, far.Run, byNode, fresh}, {comer, far.Run, connectionByNode, overTCP},
		}
	}
	answers := func(all []stream) {
		s.Helper()
		for _, one := range all {
			s.soon(func() error {
				_, err := one.run(s.ctx, append([]string{node.Tool("probe"), "stream", "-to", one.to, "-count", "3", "-grace", "1s"}, one.how...)...)
				return err
			})
		}
	}
	before := streamsTo("before")
	s.knownToKubeProxy(before[0].to)
	answers(before)
	if mode == "nftables" {
		s.writeRulesOfKubeProxyAnew()
		answers(before)
	}
	if said, err := s.check(); err == nil || strings.Count(said, "FAIL  kube-proxy node") != len(s.Nodes) || !strings.Contains(said, "From kube-proxy") {
		s.Errorf("with kube-proxy on all nodes: %v, %s", err, said)
	}

	happens := func() error {
		for _, step := range leaving {
			began := time.Now()
			clustertest.Follow(s.T, s.Cluster, step)
			s.Logf("%s: from %s to %s", step, began.Format(time.TimeOnly), time.Now().Format(time.TimeOnly))
		}
		return nil
	}
	for _, one := range before {
		inner := happens
		happens = func() error {
			lost, err := one.from.During(s.ctx, one.to, inner, one.how...)
			s.Logf("from %s to %s, %q: %d sent, %d lost, longest gap %.0f ms, %d late", one.from.Name, one.to, one.how, lost.Sent, lost.Lost, lost.MaxGapMS, lost.Late)
			if lost.Lost > 0 || lost.Sent == 0 {
				s.Errorf("from %s to %s, %q: %+v", one.from.Name, one.to, one.how, lost)
			}
			return err
		}
	}
	s.must(happens())

	answers(streamsTo("after"))
	for _, n := range s.Nodes {
		s.soon(func() error { return proxied(s.ctx, n.Run, "contiv") })
		if left, _ := n.Run(s.ctx, "sh", "-c", "nft list chains | grep -E 'kube-proxy|KUBE-(SERVICES|NODEPORTS|SVC|SEP)'"); left != "" { // grep fails if there is nothing
			s.Errorf("%s has rules of kube-proxy:\n%s", n.Name, left)
		}
	}
}

// knownToKubeProxy waits until every node has its rules for an address of a service. UDP flows of a node's
// processes from before the rules hang: it deletes their connection tracking entries, as on the page.
func (s *story) knownToKubeProxy(at string) {
	s.Helper()
	address, _, err := net.SplitHostPort(at)
	s.must(err)
	for _, n := range s.Nodes {
		s.soon(func() error {
			_, err := n.Run(s.ctx, "sh", "-c", `nft list ruleset | grep -F "$0 " | grep -qiE 'KUBE-SV|service-'`, address)
			return err
		})
	}
}

// writeRulesOfKubeProxyAnew has it start again, by which its chains are the last ones made: the kernel asks them first
// of those with one priority.
func (s *story) writeRulesOfKubeProxyAnew() {
	s.Helper()
	chains := func() string {
		var all string
		for _, n := range s.Nodes {
			out, err := n.Run(s.ctx, "nft", "--handle", "list", "chain", "ip", "kube-proxy", "nat-prerouting")
			s.must(err)
			all += out
		}
		return all
	}
	before := strings.Split(chains(), "\n")
	s.kubectl("--namespace", "kube-system", "rollout", "restart", "daemonset/kube-proxy")
	s.soon(func() error {
		for _, line := range strings.Split(chains(), "\n") {
			if strings.Contains(line, "chain nat-prerouting") && slices.Contains(before, line) {
				return errors.New("a node has the chains of before")
			}
		}
		return nil
	})
}

// check is what netctl finds.
func (s *story) check() (string, error) {
	return s.Kubectl(s.ctx, "--namespace", "kube-system", "exec", "deployment/contiv-netmaster", "--", "netctl", "check")
}

// proxied returns an error unless a node has a proxy of a mode.
func proxied(ctx context.Context, run func(context.Context, ...string) (string, error), mode string) error {
	said, err := run(ctx, "curl", "--silent", "--max-time", "2", "http://127.0.0.1:10249/proxyMode")
	if err == nil && said != mode {
		err = errors.New("its proxy is " + said)
	}
	return err
}
