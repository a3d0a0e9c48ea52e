package e2e

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

var packetInChapters = []chapter{
	{"switches send agents no packet, whatever passes, but of kinds that docs/pipeline.md names", nothingIsSentToAgents},
}

// nothingIsSentToAgents has all kinds of traffic pass, and then a client call a service without providers, whose
// refusal agents send.
func nothingIsSentToAgents(s story) {
	s.tenant("blue")
	s.blueNetwork("lan", "-s 10.1.7.0/24 -g 10.1.7.254 -s6 fd00:7::/64 -g6 fd00:7::fe")
	s.blueNetwork("other", "-s 10.1.8.0/24 -g 10.1.8.254 -s6 fd00:8::/64 -g6 fd00:8::fe")
	s.netctlForNow("policy create -t blue guard", "policy rm -t blue guard")
	s.netctlForNow("group create -t blue -p guard other quiet", "group rm -t blue quiet")
	s.netctl(strings.Fields("policy rule-add -t blue -d in -l udp -P 7 -j deny guard no-echo")...)
	client, near, far := s.pod(0, "client", "blue", "lan", ""), s.pod(0, "near", "blue", "lan", ""), s.pod(1, "far", "blue", "other", "")
	quiet, host := s.pod(1, "quiet", "blue", "other", "quiet"), s.bed.Nodes[0]
	s.service("web", "lan", lanVIP, lanVIP6, "")
	for _, provider := range []*testbed.Pod{near, far} {
		s.container("start", provider, map[string]string{"app": "web"})
	}
	outside := s.serverOutside(host, "9999", "4790") + ":9999"

	everything := func(s story) {
		s.reachEachOther(shortly, client, near, far)
		s.reachByIPv6([]*testbed.Pod{client, near, far})
		s.during(client, far, func() { s.pause(time.Second) })
		s.pings(client, "-s", "4000", far.IP.String()) // in fragments
		s.soon(shortly, func() error { return isGuarded(s.ctx, client, quiet) })
		for _, vip := range []string{lanVIP, lanVIP6} {
			s.servedAt(vip, []*testbed.Pod{client, near}, near.Name, far.Name)
		}
		for _, address := range []string{"10.1.7.254", "fd00:7::fe", lanVIP, lanVIP6, host.MgmtIP} {
			s.pings(client, address)
		}
		for _, transport := range []string{"udp", "tcp"} {
			s.soon(shortly, func() error {
				return told(s, client, near.IP.String(), "-net", transport, near.ContainerID())
			})
			s.must(told(s, client, "NXDOMAIN", "-net", transport, "nobody.blue.contiv.internal"))
		}
		s.soon(shortly, func() error { return answering(s.ctx, client, []string{outside}, nil) })
		_, err := client.Run(s.ctx, "sh", "-c", "ip neigh flush dev eth0; for to in 10.1.7.99 fd00:7::99 ff02::1; do ping -c1 -W0.3 -n -q $to; done; :") // nobody is there
		s.must(err)
	}
	everything(s) // the first round, with its learning, is no steady state
	s.sendsAgents(nothing, func() { everything(s) })
	s.container("die", near, nil)
	s.container("die", far, nil)
	s.refusedAt(client, lanVIP)
	s.sendsAgents(something, func() { s.refusedAt(client, lanVIP) })
}

// Whether switches send packets to agents.
const (
	nothing   = false
	something = true
)

// sendsAgents expects that while happens runs switches send packets to agents, or none.
func (s story) sendsAgents(want bool, happens func()) {
	s.Helper()
	var watches []watch
	for _, n := range s.bed.Nodes {
		out, err := n.Run(s.ctx, "ovs-vsctl", "--timeout=10", "list-br")
		s.must(err)
		for _, bridge := range strings.Fields(out) {
			if strings.HasPrefix(bridge, "contiv") {
				watches = append(watches, s.watch(n, bridge))
			}
		}
	}
	happens()
	var sent strings.Builder
	for _, w := range watches {
		sent.WriteString(s.packetsIn(w))
	}
	if got := sent.Len() > 0; got != want {
		s.Errorf("switches send agents packets: %v, want %v\n%s", got, want, &sent)
	}
}

// watch is one more controller of a switch, which gets a copy of each packet that the switch sends to any of them.
type watch struct {
	*testbed.Process
	node *testbed.Node
}

func (s story) watch(n *testbed.Node, bridge string) watch {
	s.Helper()
	name := "watch-" + bridge
	p, err := n.Start(name, "ovs-ofctl", "-O", "OpenFlow13", "--unixctl=/run/"+name, "monitor", bridge, "65534")
	s.must(err)
	w := watch{p, n}
	s.afterwards(func(context.Context) error { return p.Kill() })
	s.upToNow(w)
	return w
}

// upToNow returns when the watch has received all that the switch has sent.
func (s story) upToNow(w watch) {
	s.Helper()
	s.soon(shortly, func() error {
		_, err := w.node.Run(s.ctx, "ovs-appctl", "-t", "/run/"+w.Name, "ofctl/barrier")
		return err
	})
}

// packetsIn ends a watch and returns the packets that it has seen, a line for each and one for its content.
func (s story) packetsIn(w watch) string {
	s.Helper()
	s.upToNow(w)
	s.must(w.Terminate())
	data, err := os.ReadFile(w.node.LogFile(w.Name))
	s.must(err)
	s.must(os.Remove(w.node.LogFile(w.Name)))
	if !strings.Contains(string(data), "PACKET_IN") {
		return ""
	}
	return w.node.Name + ":\n" + string(data)
}
