package life

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/k8s/clustertest"
)

// Nodes, pods and services may have addresses of IPv6 and no others, and so may what leads between nodes: the tunnels.
func TestAClusterMayHaveIPv6Only(t *testing.T) {
	c := clustertest.Up(t, cluster.Config{Nodes: 2, First: true, OnlyIPv6: true}, false)
	s := six{on(t, c, clustertest.API(t, c), 4*podLimit)}
	manifest, err := filepath.Abs(filepath.Join("testdata", "onlyipv6.yaml")) // kubectl runs elsewhere
	s.must(err)
	s.kubectl("apply", "-f", manifest)
	s.kubectl("wait", "--for=condition=Ready", "--timeout=3m", "pod", "--all")
	for _, one := range []struct {
		name string
		tell func(six)
	}{
		{"nobody has an address of IPv4", six.noIPv4},
		{"pods, nodes and their processes reach each other", six.everywhere},
		{"services are served at their addresses and at ports of nodes", six.services},
		{"names lead to services", six.names},
		{"policies deny and allow, and kubelet probes all the same", six.policies},
		{"an agent, and the netmaster that leads, may be killed", six.kills},
		{"the cluster is in order", six.inOrder},
	} {
		if !t.Run(one.name, func(t *testing.T) { one.tell(six{on(t, c, s.api, 2*podLimit)}) }) {
			break
		}
	}
}

// six is a story in a cluster of IPv6.
type six struct{ *story }

func (s six) kubectl(args ...string) string {
	s.Helper()
	out, err := s.Kubectl(s.ctx, args...)
	s.must(err)
	return strings.TrimSpace(out)
}

// of asks for a field of an object.
func (s six) of(kind, name, field string) string {
	s.Helper()
	return s.kubectl("get", kind, name, "-o", "jsonpath={"+field+"}")
}

// at is a port of a pod.
func (s six) at(pod string, port int) string {
	s.Helper()
	return net.JoinHostPort(s.of("pod", pod, ".status.podIP"), strconv.Itoa(port))
}

// Ports of the servers in testdata/onlyipv6.yaml.
const (
	sixPort     = 8080
	sixProcess  = 7070
	sixHostPort = 8088
	sixNodePort = 30080
)

// nodePorts are a port of all nodes.
func (s six) nodePorts(port int) (all []string) {
	for _, n := range s.Nodes {
		all = append(all, n.At(port))
	}
	return all
}

// reach waits until processes in pods get answers at all addresses.
func (s six) reach(from []string, to ...string) {
	s.Helper()
	for _, pod := range from {
		for _, address := range to {
			s.soon(func() error { return fromTo(pod, address, reached(s.ctx, s.Cluster, pod, address)) })
		}
	}
}

// deny waits until processes in pods get none.
func (s six) deny(from []string, to ...string) {
	s.Helper()
	for _, pod := range from {
		for _, address := range to {
			s.soon(func() error { return fromTo(pod, address, denied(s.ctx, s.Cluster, pod, address)) })
		}
	}
}

func fromTo(from, to string, err error) error {
	if err != nil {
		err = fmt.Errorf("from %s to %s: %w", from, to, err)
	}
	return err
}

// All that run in testdata/onlyipv6.yaml, on the first node and on the second.
var (
	sixPods      = []string{"client", "near", "web"}
	sixProcesses = []string{"process1", "process2"}
)

func (s six) noIPv4() {
	for what, path := range map[string][]string{
		"nodes":    {"get", "nodes", "-o", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`},
		"pods":     {"get", "pods", "-A", "-o", "jsonpath={.items[*].status.podIPs[*].ip}"},
		"hosts":    {"get", "pods", "-A", "-o", "jsonpath={.items[*].status.hostIPs[*].ip}"},
		"services": {"get", "services", "-A", "-o", "jsonpath={.items[*].spec.clusterIPs[*]}"},
	} {
		all := strings.Fields(s.kubectl(path...))
		if len(all) < 2 {
			s.Errorf("%s have addresses %q", what, all)
		}
		for _, text := range all {
			if a, err := netip.ParseAddr(text); err != nil || !a.Is6() {
				s.Errorf("%s have address %s: %v", what, text, err)
			}
		}
	}
	for _, pod := range sixPods {
		if out := s.kubectl("exec", pod, "--", "ip", "-4", "-o", "address", "show", "dev", "eth0"); out != "" {
			s.Errorf("%s has %s", pod, out)
		}
	}
	for _, n := range s.Nodes { // except loopback, and what is the same on all
		out, err := n.Run(s.ctx, "sh", "-c", "ip -4 -o address show | grep -vwE 'lo|contivh0' || :")
		s.must(err)
		if out != "" {
			s.Errorf("%s has %s", n.Name, out)
		}
	}
}

func (s six) everywhere() {
	for _, pod := range sixPods {
		s.reach(slices.Concat(sixPods, sixProcesses), s.at(pod, sixPort))
	}
	for _, process := range sixProcesses {
		s.reach(slices.Concat(sixPods, sixProcesses), s.at(process, sixProcess))
	}
	s.reach(slices.Concat(sixPods, sixProcesses), s.Nodes[0].At(sixHostPort))
}

func (s six) services() {
	all := slices.Concat(sixPods, sixProcesses)
	s.reach(all, net.JoinHostPort(s.of("service", "front", ".spec.clusterIP"), "80"))
	s.reach(all, s.nodePorts(sixNodePort)...)
	for _, pod := range all {
		s.soon(func() error {
			return s.asksAPI(pod, net.JoinHostPort(s.of("service", "kubernetes", ".spec.clusterIP"), "443"))
		})
	}
}

// asksAPI returns why a pod does not get an answer of the API server that its service account's CA verifies.
func (s six) asksAPI(pod, at string) error {
	const authority = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
	out, err := s.Kubectl(s.ctx, "exec", pod, "--", "curl", "--silent", "--show-error", "--max-time", "2", "--cacert", authority, "https://"+at+"/version")
	if err == nil && !strings.Contains(out, "gitVersion") {
		err = fmt.Errorf("the API server says %q", out)
	}
	return fromTo(pod, at, err)
}

func (s six) names() {
	for name, want := range map[string]string{
		"front.default.svc.cluster.local":        s.of("service", "front", ".spec.clusterIP"),
		"kubernetes.default.svc.cluster.local":   s.of("service", "kubernetes", ".spec.clusterIP"),
		"kube-dns.kube-system.svc.cluster.local": s.kubectl("--namespace", "kube-system", "get", "service", "kube-dns", "-o", "jsonpath={.spec.clusterIP}"),
	} {
		for _, pod := range sixPods {
			for kind, answer := range map[string]string{"AAAA": want, "A": ""} {
				s.soon(func() error {
					out, err := s.Kubectl(s.ctx, "exec", pod, "--", "dig", "+short", "+time=2", "+tries=1", name, kind)
					if got := strings.TrimSpace(out); err == nil && got != answer {
						err = fmt.Errorf("%s of %s is %q, want %q", kind, name, got, answer)
					}
					return err
				})
			}
		}
	}
	s.reach(sixPods, "front:80", "front.default.svc.cluster.local:80")
	for _, pod := range sixPods {
		s.soon(func() error { return s.asksAPI(pod, "kubernetes.default.svc") })
	}
}

func (s six) policies() {
	web, service := s.at("web", sixPort), net.JoinHostPort(s.of("service", "front", ".spec.clusterIP"), "80")
	probed := func() string {
		return s.of("pod", "web", `.status.conditions[?(@.type=="Ready")]['status','lastTransitionTime']`) + " " + s.of("pod", "web", ".status.containerStatuses[0].restartCount")
	}
	before := probed()
	app := func(name string) object { return object{"matchLabels": object{"app": name}} }
	s.policy("nobody", object{"podSelector": app("web"), "policyTypes": []string{"Ingress"}})
	s.deny([]string{"client", "near", "process1"}, web)
	s.deny([]string{"client", "near"}, service)
	s.reach([]string{"process2"}, web) // its own node

	s.policy("client", object{"podSelector": app("web"), "ingress": []object{{"from": []object{{"podSelector": app("client")}}, "ports": []object{{"port": sixPort}}}}})
	s.reach([]string{"client"}, web, service)
	s.deny([]string{"near", "process1"}, web)

	near := s.of("pod", "near", ".status.podIP") + "/128"
	s.policy("blocks", object{"podSelector": app("web"), "ingress": []object{{"from": []object{
		{"ipBlock": object{"cidr": near}}, {"ipBlock": object{"cidr": s.Nodes[0].MgmtIP + "/128"}}}}}})
	s.reach([]string{"client", "near", "process1"}, web)
	s.policy("nothing", object{"podSelector": app("client"), "policyTypes": []string{"Egress"}})
	s.deny([]string{"client"}, web, service, s.at("process2", sixProcess))
	if after := probed(); after != before {
		s.Errorf("web was ready since and restarted %s, and with policies %s", before, after)
	}
	for _, name := range []string{"nobody", "client", "blocks", "nothing"} {
		s.noPolicy(name)
	}
	s.reach(slices.Concat(sixPods, sixProcesses), web)
}

func (s six) kills() {
	client, server := s.pod("talker", 1), s.pod("listener", 2)
	s.must(server.Echo())
	s.must(client.Hears(s.ctx, server.IP))
	stream, err := client.During(s.ctx, server.IP, func() error {
		leader, err := s.Leader(s.ctx)
		if err != nil {
			return err
		}
		err = errors.Join(s.Nodes[1].Netplugin().Kill(), leader.Netmaster().Kill(), s.Nodes[1].StartNetplugin(), leader.StartNetmaster())
		if err != nil {
			return err
		}
		return s.Nodes[1].WaitReady(s.ctx)
	})
	s.must(err)
	if stream.Sent == 0 || stream.Lost > 0 {
		s.Errorf("of %d datagrams %d were lost: %+v", stream.Sent, stream.Lost, stream.Losses)
	}
	late := s.pod("late", 2)
	s.soon(func() error { return s.reaches(client, late.IP) })
	s.reach([]string{"client", "process1"}, s.at("web", sixPort), net.JoinHostPort(s.of("service", "front", ".spec.clusterIP"), "80"))
}

func (s six) inOrder() {
	s.soon(func() error {
		said, err := s.Netctl(s.ctx, "check")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return err
	})
}
