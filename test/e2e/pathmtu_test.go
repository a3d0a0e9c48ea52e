package e2e

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// podsAreToldWhatIsTooBig has pods that have raised their own MTU, and an external router with a small one.
func podsAreToldWhatIsTooBig(s story) {
	s.tenant("blue")
	s.netctlForNow("network create -t blue -s 10.1.1.0/24 -g 10.1.1.254 -s6 fd00:1::/64 -g6 fd00:1::fe near", "network rm -t blue near")
	s.netctlForNow("network create -t blue -s 10.1.2.0/24 -g 10.1.2.254 -s6 fd00:2::/64 -g6 fd00:2::fe away", "network rm -t blue away")
	s.netctlForNow("service create -t blue -s away -l app=web -ip "+serviceVIP+" -p "+echoPort+":"+echoPort+":UDP web", "service rm -t blue web")
	pod, neighbour := s.pod(0, "pod", "blue", "near", ""), s.pod(1, "neighbour", "blue", "near", "")
	server := s.sandbox(1, "server", "blue", "away", "")
	server.Labels = map[string]string{"app": "web"}
	s.must(server.Attach(s.ctx))
	s.serve(server)
	s.reachEachOther(shortly, pod, neighbour, server)
	had, err := pod.Run(s.ctx, "cat", "/sys/class/net/eth0/mtu")
	s.must(err)
	mtu := strings.TrimSpace(had)
	for _, p := range []*testbed.Pod{pod, neighbour, server} {
		_, err := p.Run(s.ctx, "ip", "link", "set", "eth0", "mtu", "9000")
		s.must(err)
	}

	for _, far := range []*testbed.Pod{neighbour, server} {
		for _, to := range []netip.Addr{far.IP, s.ipv6Of(far)} {
			s.isTold(pod, to.String(), mtu, "8900")
			s.pings(pod, "-s", "8900", to.String()) // now both ends fragment
		}
	}
	for _, far := range []string{server.IP.String(), s.ipv6Of(server).String()} {
		s.says(pod, "rom (10.1.1.254|fd00:1::fe).*ime (to live )?exceeded", "ping", "-n", "-c1", "-W1", "-t1", far) // traceroute sees the gateway
	}
	// An ICMP error about the provider's address must reach the client as one about the service's address.
	s.soon(shortly, func() error {
		route, err := pod.Run(s.ctx, "bash", "-c", "head -c 8000 /dev/zero >/dev/udp/"+serviceVIP+"/"+echoPort+"; ip route get "+serviceVIP)
		if err == nil && !strings.Contains(route, "mtu "+mtu) {
			err = fmt.Errorf("the way to the service: %s", route)
		}
		return err
	})

	host := s.bed.Nodes[0]
	outside := s.serverOutside(host, "80", "7")
	const outside6 = "2001:db8:5::2"
	_, err = host.Run(s.ctx, "sh", "-ec", `
ip address add 2001:db8:5::1/64 dev world nodad
ip -n world address add `+outside6+`/64 dev eth0 nodad
ip -n world route replace default via 2001:db8:5::1
ip route replace `+outside+`/32 dev world mtu lock 1300
ip route replace `+outside6+`/128 dev world mtu lock 1300`)
	s.must(err)
	s.pings(pod, "2001:db8:5::1") // the host itself
	for _, to := range []string{outside, outside6} {
		s.pings(pod, to)
		s.isTold(pod, to, "1300", "1400")
		s.isTold(pod, to, mtu, "8900") // by the switch, since that is less than a packet to the host may have
		s.says(pod, "ime to live exceeded|ime exceeded", "ping", "-n", "-c1", "-W1", "-t2", to)
	}
	s.says(pod, "onnection refused", "bash", "-c", "exec 3<>/dev/udp/"+outside+"/9; echo >&3; sleep 0.1; echo >&3")
}

// isTold expects that a pod learns the MTU of the path to an address when it sends so many bytes that must not be
// fragmented.
func (s story) isTold(pod *testbed.Pod, to, mtu, size string) {
	s.Helper()
	_, err := pod.Run(s.ctx, "sh", "-ec", "ip route flush cache; ip -6 route flush cache")
	s.must(err)
	s.says(pod, "mtu ?= ?"+mtu, "ping", "-n", "-c1", "-W1", "-M", "do", "-s", size, to)
}

// says expects a command in a pod to print a match, also if it fails.
func (s story) says(pod *testbed.Pod, expression string, command ...string) {
	s.Helper()
	s.soon(shortly, func() error {
		args := append([]string{"sh", "-c", `"$@" 2>&1 | tee /dev/stderr | grep -E "$0" >/dev/null`, expression}, command...)
		_, err := pod.Run(s.ctx, args...)
		return err
	})
}
