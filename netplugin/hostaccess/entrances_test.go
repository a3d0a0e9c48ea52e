package hostaccess

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/test/testkit"
)

// answering is a namespace that acts as a switch with services: it answers every client, at any of its addresses,
// with the client's address.
const answering = `
import socket, sys, threading
def serve(kind, at, port):
    s = socket.socket(socket.AF_INET6, kind); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind((at, port))
    if kind == socket.SOCK_STREAM:
        s.listen(8)
        while True:
            c, a = s.accept(); c.sendall(a[0].encode()); c.close()
    while True:
        d, a = s.recvfrom(9); s.sendto(a[0].encode(), a)
for one in sys.argv[1:]:
    kind, at, port = one.split()
    threading.Thread(target=serve, args=({"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}[kind], at, int(port))).start()
`

// asking prints the answer from an address and port. A datagram is sent in fragments.
const asking = `
import socket, sys
s = socket.create_connection((sys.argv[2], int(sys.argv[3])), 5) if sys.argv[1] == "tcp" else socket.socket(socket.AF_INET6 if ":" in sys.argv[2] else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
if sys.argv[1] == "udp": s.connect((sys.argv[2], int(sys.argv[3]))); s.send(b"x" * 4000)
print(s.recv(99).decode().replace("::ffff:", ""))
`

// elsewhere are rules of other software, as Kubernetes' own proxy has them: they forward packets to services and
// ports to an unused address, as if the host had sent them. They are evaluated after ours, as the kernel begins
// with the chain that was made last among those of one priority.
const elsewhere = `nft -f - <<END
table inet proxy {
	chain services {
		ip daddr { 198.51.100.80, 203.0.113.1 } meta l4proto { tcp, udp } meta mark set 0x4000 dnat ip to 203.0.113.77
		ip6 daddr { 2001:db8:80::1, 2001:db8:1::1 } meta l4proto { tcp, udp } meta mark set 0x4000 dnat ip6 to 2001:db8:1::77
		ip daddr 127.0.0.1 tcp dport { 8080, 54323 } meta mark set 0x4000 dnat ip to 203.0.113.77
	}
	chain in { type nat hook prerouting priority -100; jump services; }
	chain here { type nat hook output priority -100; jump services; }
	chain out { type nat hook postrouting priority 100; meta mark 0x4000 masquerade; }
}
END`

// Kubernetes reports the addresses of a node. A node that it does not know has its own.
func TestNodePortsAreAtThePrimaryAddressesUnlessSomebodySaysOtherwise(t *testing.T) {
	primary := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	own, network := netip.MustParseAddr("198.51.100.1"), netip.MustParsePrefix("203.0.113.0/24")
	for _, test := range []struct {
		config  Config
		primary []netip.Addr
		want    string
	}{
		{Config{Entrances: Entrances{Own: own}}, primary, "[192.0.2.1/32 2001:db8::1/128]"},
		{Config{Entrances: Entrances{Own: own}}, primary[:1], "[192.0.2.1/32]"},
		{Config{Entrances: Entrances{Own: own}}, nil, "[198.51.100.1/32]"},
		{Config{}, nil, "[]"},
		{Config{Entrances: Entrances{NodePortsAt: []netip.Prefix{network}}}, primary, "[203.0.113.0/24]"},
		{Config{Entrances: Entrances{NodePortsAt: Everywhere()}}, primary, "[0.0.0.0/0 ::/0]"},
	} {
		if got := fmt.Sprint(New(test.config).nodePortsAt(test.primary)); got != test.want {
			t.Errorf("%v, known by %v: %s, want %s", test.config.NodePortsAt, test.primary, got, test.want)
		}
	}
}

// playSwitch makes a namespace that is the world, beyond the host, and one that is the switch with services, at
// the host's egress interface.
func playSwitch(t *testing.T, in entrances, more ...string) {
	t.Helper()
	t.Cleanup(func() {
		// The links are deleted at once; those inside a namespace some time after it.
		run(t, "nft flush ruleset; for l in contivh0 esw toworld; do ip link del $l 2>/dev/null || true; done; ip netns del switch || true; ip netns del world || true")
	})
	run(t, `set -e
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip link set lo up
ip netns add world; ip netns add switch
ip link add toworld type veth peer name eth0 netns world
ip addr add 203.0.113.1/24 dev toworld; ip addr add 2001:db8:1::1/64 dev toworld nodad; ip link set toworld up
ip -n world addr add 203.0.113.2/24 dev eth0; ip -n world addr add 2001:db8:1::2/64 dev eth0 nodad; ip -n world link set eth0 up
ip -n world route add default via 203.0.113.1; ip -n world route add default via 2001:db8:1::1
ip link add esw type veth peer name pod; ip link set esw up`)
	link := outsideInterface(wayOut)
	link.routes = routesTo(in.routed()...)
	for range 2 {
		if _, err := link.ensure(drivers.Port{HostLink: "esw", PodLink: "pod"}, new(own)); err != nil {
			t.Fatal(err)
		}
	}
	if changed, err := link.ensure(drivers.Port{HostLink: "esw", PodLink: "pod"}, new(own)); changed || err != nil {
		t.Errorf("set right again: %v, %v", changed, err)
	}
	run(t, `set -e
ip link set esw netns switch; ip -n switch link set lo up; ip -n switch link set esw arp off up
for a in 172.19.255.253 fd63:6f6e:7469:7601::fffd 198.51.100.80 2001:db8:80::1 `+strings.Join(more, " ")+`; do ip -n switch addr add $a dev esw nodad; done
ip netns exec switch ip link set esw address `+link.mac.String()+`
ip -n switch route add default dev esw; ip -n switch -6 route add default dev esw
ip -n switch -6 route add 2001:db8:1::1 dev esw src fd63:6f6e:7469:7601::5`)
}

// The host and the world beyond it reach services and the host ports of endpoints, and answers return to them;
// servers see the client's address. Rules of other software that would forward elsewhere change none of it.
func TestTheHostLeadsToServicesAndHostPorts(t *testing.T) {
	testkit.NeedsMachine(t)
	in := entrances{agent.Entrances{
		Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.80"), netip.MustParseAddr("2001:db8:80::1")},
		Cluster:   []netip.Addr{netip.MustParseAddr("10.96.0.80"), netip.MustParseAddr("fd00:96::80")},
		NodePorts: []agent.NodePort{{Protocol: 6, Port: 30080}, {Protocol: 17, Port: 30007}},
	}, wayOut, Everywhere()}
	to := func(protocol, at string, port, to uint16) HostPort {
		address, _ := netip.ParseAddr(at) // empty: all
		return HostPort{mastercfg.HostPort{Address: address, Protocol: protocol, Port: port, To: to}, 5, true, true, ""}
	}
	ports := hostPorts{[]HostPort{
		to("tcp", "", 8080, 80), to("tcp", "127.0.0.1", 54323, 80), to("tcp", "203.0.113.1", 54324, 80), to("udp", "203.0.113.1", 54323, 30053),
	}, wayOut}
	playSwitch(t, in, "172.19.0.5", "fd63:6f6e:7469:7601::5", "10.96.0.80", "fd00:96::80")
	table := tableFor(wayOut, closed, "inb01", 2000).with(in).withHostPorts(ports)
	rules := new(rules)
	if err := errors.Join(rules.apply(t.Context(), table), routeLoopback(true)); err != nil {
		t.Fatal(err)
	}
	run(t, elsewhere)
	if rules.listed == "" || rules.list(t.Context(), table) != rules.listed {
		t.Errorf("the table would be written again:\n%s", rules.listed)
	}
	answerIn(t, "switch", "tcp :: 80", "tcp :: 30080", "udp :: 30007", "udp ::ffff:172.19.0.5 30053")
	leads(t, []asked{
		{"", "tcp", "198.51.100.80", "80", "172.19.255.254"},
		{"", "tcp", "2001:db8:80::1", "80", "fd63:6f6e:7469:7601::fffe"},
		{"", "tcp", "203.0.113.1", "30080", "203.0.113.1"},
		{"", "udp", "203.0.113.1", "30007", "203.0.113.1"},
		{"", "tcp", "2001:db8:1::1", "30080", "2001:db8:1::1"},
		{"ip netns exec world ", "tcp", "198.51.100.80", "80", "203.0.113.2"},
		{"ip netns exec world ", "tcp", "2001:db8:80::1", "80", "2001:db8:1::2"},
		{"ip netns exec world ", "tcp", "203.0.113.1", "30080", "203.0.113.2"},
		{"ip netns exec world ", "udp", "203.0.113.1", "30007", "203.0.113.2"},
		{"ip netns exec world ", "tcp", "2001:db8:1::1", "30080", "2001:db8:1::2"},
		// Host ports.
		{"", "tcp", "127.0.0.1", "8080", "172.19.255.254"},
		{"", "tcp", "203.0.113.1", "8080", "172.19.255.254"},
		{"", "tcp", "127.0.0.1", "54323", "172.19.255.254"},
		{"", "tcp", "203.0.113.1", "54324", "172.19.255.254"},
		{"", "udp", "203.0.113.1", "54323", "172.19.255.254"},
		{"", "tcp", "2001:db8:1::1", "8080", "fd63:6f6e:7469:7601::fffe"},
		{"ip netns exec world ", "tcp", "203.0.113.1", "8080", "203.0.113.2"},
		{"ip netns exec world ", "udp", "203.0.113.1", "54323", "203.0.113.2"},
		{"ip netns exec world ", "tcp", "2001:db8:1::1", "8080", "2001:db8:1::2"},
		// Cluster addresses.
		{"", "tcp", "10.96.0.80", "80", "172.19.255.254"},
		{"", "tcp", "fd00:96::80", "80", "fd63:6f6e:7469:7601::fffe"},
		// Endpoints of this node are not the host: rules apply to them.
		{"ip netns exec switch ", "tcp", "203.0.113.1", "54324", "172.19.255.251"},
		{"ip netns exec switch ", "tcp", "2001:db8:1::1", "8080", "fd63:6f6e:7469:7601::fffb"},
	})
	for _, at := range in.Cluster { // clients that enter by the host are not served there
		if got := run(t, fmt.Sprintf("ip netns exec world "+testkit.Python+" -ISc '%s' tcp %s 80 2>&1 || true", asking, at)); !strings.Contains(got, "timed out") {
			t.Errorf("at %s the world is answered %q", at, got)
		}
	}
	// Node ports may be at some addresses of the host only.
	in.at = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	if err := rules.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).with(in).withHostPorts(ports)); err != nil {
		t.Fatal(err)
	}
	for at, answers := range map[string]bool{"203.0.113.1": true, "2001:db8:1::1": false} {
		for _, from := range []string{"", "ip netns exec world "} {
			var got string
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := testkit.Until(ctx, "what is wanted", func() bool {
				got = run(t, fmt.Sprintf("%s"+testkit.Python+" -ISc '%s' tcp %s 30080 2>&1 || true", from, asking, at))
				return strings.Contains(got, "203.0.113") || !answers
			}); err != nil || strings.Contains(got, "203.0.113") != answers {
				t.Errorf("node ports are at %v; %sat %s: %q", in.at, from, at, got)
			}
		}
	}
	// With node ports at the primary addresses, other addresses of the host have none, nor those of an IP family that
	// Kubernetes does not report.
	run(t, "ip addr add 203.0.113.9/24 dev toworld")
	in.at = New(Config{}).nodePortsAt([]netip.Addr{netip.MustParseAddr("203.0.113.1")})
	if err := rules.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).with(in).withHostPorts(ports)); err != nil {
		t.Fatal(err)
	}
	for at, answers := range map[string]bool{"203.0.113.1": true, "203.0.113.9": false, "2001:db8:1::1": false} {
		for _, from := range []string{"", "ip netns exec world "} {
			if got := run(t, fmt.Sprintf("%s"+testkit.Python+" -ISc '%s' tcp %s 30080 2>&1 || true", from, asking, at)); strings.Contains(got, "203.0.113") != answers {
				t.Errorf("node ports are at %v; %sat %s: %q", in.at, from, at, got)
			}
		}
	}
	// Packets that are not for a service or a host port do not enter, and endpoints do not reach the host's loopback.
	run(t, "ip netns exec switch ip route add 127.0.0.9 dev esw; sysctl -qw net.ipv4.conf.contivh0.route_localnet=1")
	for from, at := range map[string]string{"world": "203.0.113.1 54323", "switch": "127.0.0.9 8080"} {
		if got := run(t, fmt.Sprintf("ip netns exec %s timeout 1 "+testkit.Python+" -ISc '%s' tcp %s 2>&1 || true", from, asking, at)); strings.Contains(got, "172.19") || strings.Contains(got, "203.0.113.2") {
			t.Errorf("%s reaches %s: %s", from, at, got)
		}
	}
	if got := run(t, fmt.Sprintf("ip netns exec world timeout 1 "+testkit.Python+" -ISc '%s' tcp 172.19.255.253 30080 2>&1 || true", asking)); strings.Contains(got, "203.0.113.2") {
		t.Errorf("the address of the node ports is reached from outside: %s", got)
	}
}

// answerIn answers in a namespace, the host's own if it has no name, at ports with a kind, an address and a
// number.
func answerIn(t *testing.T, namespace string, ports ...string) {
	t.Helper()
	args := append([]string{testkit.Python, "-ISc", answering}, ports...)
	if namespace != "" {
		args = append([]string{"ip", "netns", "exec", namespace}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// asked is a request from the host, or with the command prefix from elsewhere, and the client's address that the
// server sees.
type asked struct{ from, kind, at, port, as string }

// leads waits until each request gets the wanted answer.
func leads(t *testing.T, all []asked) {
	t.Helper()
	for _, test := range all {
		ask := fmt.Sprintf("%s"+testkit.Python+" -ISc '%s' %s %s %s 2>&1 || true", test.from, asking, test.kind, test.at, test.port)
		var got string
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := testkit.Until(ctx, "an answer", func() bool {
			got = strings.TrimSpace(run(t, ask))
			return got == test.as
		}); err != nil {
			t.Errorf("%s%s %s %s is answered %q, want %q", test.from, test.kind, test.at, test.port, got, test.as)
		}
	}
}
