package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// serverOutside makes a machine that is no node, with servers, and returns its address: a network namespace behind
// the host.
func (s story) serverOutside(host *testbed.Node, tcp, udp string) string {
	s.Helper()
	const address = "203.0.113.2"
	_, err := host.Run(s.ctx, "sh", "-ec", `
ip netns add world
ip link add world type veth peer name eth0 netns world
ip address add 203.0.113.1/24 dev world
ip link set world up
ip -n world address add `+address+`/24 dev eth0
ip -n world link set eth0 up
ip -n world link set lo up`)
	s.must(err)
	s.afterwards(func(ctx context.Context) error {
		_, err := host.Run(ctx, "ip", "netns", "delete", "world")
		return err
	})
	p, err := host.Start("world", "ip", "netns", "exec", "world", host.Tool("probe"), "serve", "-tcp", tcp, "-udp", udp)
	s.must(err)
	s.afterwards(func(context.Context) error { return p.Kill() })
	return address
}

// answering returns an error unless all of these answer a pod, and none of those.
func answering(ctx context.Context, pod *testbed.Pod, these, those []string) error {
	out, err := pod.Run(ctx, pod.Probe(), "reach", "-wait", "2s", "-tcp", strings.Join(slices.Concat(these, those), ","))
	if err != nil {
		return err
	}
	var answers map[string]string
	if err := json.Unmarshal([]byte(out), &answers); err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	for _, target := range these {
		if answers[target] == "" {
			return fmt.Errorf("%s does not reach %s", pod.Name, target)
		}
	}
	for _, target := range those {
		if answers[target] != "" {
			return fmt.Errorf("%s reaches %s", pod.Name, target)
		}
	}
	return nil
}

// timeout is the exit code of timeout(1) without any answer: not even a refusal.
const timeout = "124"

// dialled returns the exit codes of connecting to each address/port.
func dialled(s story, pod *testbed.Pod, targets ...string) (ends []string) {
	s.Helper()
	out, err := pod.Run(s.ctx, append([]string{"bash", "-c", `
for to; do { timeout 2 bash -c "</dev/tcp/$to"; echo "$to $?"; } & done 2>/dev/null
wait`, "bash"}, targets...)...)
	s.must(err)
	by := map[string]string{}
	for line := range strings.Lines(out) {
		target, end, _ := strings.Cut(strings.TrimSpace(line), " ")
		by[target] = end
	}
	for _, target := range targets {
		ends = append(ends, by[target])
	}
	return ends
}

// seenScript counts the datagrams for the ports of tunnels, and for one beside them,
// that the rules of the host have let in.
const seenScript = `
nft add table inet seen
nft add chain inet seen in '{ type filter hook input priority 100; }'
for port in 4789 4790 6081 8472 4791; do
	nft add rule inet seen in udp dport "$port" ip saddr "$1" counter
done`

// controlIsClosed expects that a pod reaches neither the control plane nor the tunnels, on its own host and on
// another one, but the ports beside them.
func (s story) controlIsClosed(pod *testbed.Pod, server string) {
	s.Helper()
	s.soon(shortly, func() error {
		if open := dialled(s, pod, server+"/9999"); !slices.Equal(open, []string{"0"}) {
			return fmt.Errorf("a server that is no node's: %q", open)
		}
		return nil
	})
	for _, n := range s.bed.Nodes {
		// A pod has its private address at its own host, and its host's at others.
		sender := pod.Node.MgmtIP
		if n == pod.Node {
			sender = "172.19.0.0/16"
		}
		_, err := n.Run(s.ctx, "sh", "-ec", seenScript, "sh", sender)
		s.must(err)
		s.afterwards(func(ctx context.Context) error {
			_, err := n.Run(ctx, "nft", "delete", "table", "inet", "seen")
			return err
		})
		if left := dialled(s, pod, n.MgmtIP+"/9999", n.MgmtIP+"/2379", n.MgmtIP+"/2380", n.MgmtIP+"/9090"); !slices.Equal(left, []string{timeout, timeout, timeout, timeout}) {
			s.Errorf("netmaster, etcd and netplugin of %s from a pod: %q, want %s", n.Name, left, timeout)
		}
		s.soon(shortly, func() error {
			var targets []string
			for _, port := range []string{"4789", "4790", "6081", "8472", "4791"} {
				targets = append(targets, n.MgmtIP+":"+port)
			}
			_, err := pod.Run(s.ctx, pod.Probe(), "reach", "-wait", "200ms", "-udp", strings.Join(targets, ","))
			if err != nil {
				return err
			}
			seen, err := n.Run(s.ctx, "nft", "list", "chain", "inet", "seen", "in")
			if err != nil {
				return err
			}
			for line := range strings.Lines(seen) {
				switch none, beside := strings.Contains(line, "packets 0"), strings.Contains(line, "dport 4791"); {
				case beside && none:
					return fmt.Errorf("%s: no datagram has come: %s", n.Name, seen)
				case strings.Contains(line, "dport") && !beside && !none:
					s.Errorf("%s: datagrams into a tunnel: %s", n.Name, seen)
				}
			}
			return nil
		})
	}
}
