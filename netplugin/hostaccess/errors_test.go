package hostaccess

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/netspace"
)

// tooBig sends an ICMP error "too big" to the first address, which quotes a packet from there to the second one:
// an echo reply, or a datagram from a port to port 4789.
const tooBig = `
import ipaddress, socket, struct, sys
to, peer, port = ipaddress.ip_address(sys.argv[1]), ipaddress.ip_address(sys.argv[2]), int(sys.argv[3])
reply = 0 if to.version == 4 else 129
at = int((sys.argv + [4789])[4])
about = struct.pack("!HHHH", port, at, 8, 0) if port else struct.pack("!BBHHH", reply, 0, 0, 7, 1)
protocol = 17 if port else 1 if to.version == 4 else 58
if to.version == 4:
    quoted = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(about), 7, 0, 64, protocol, 0)
    error = struct.pack("!BBHHH", 3, 4, 0, 0, 600)
else:
    quoted = struct.pack("!IHBB", 0x60000000, len(about), protocol, 64)
    error = struct.pack("!BBHI", 2, 0, 0, 1300)
quoted += to.packed + peer.packed
def checksum(b):
    s = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    s = (s >> 16) + (s & 0xffff)
    return ~(s + (s >> 16)) & 0xffff
if to.version == 4:
    quoted = quoted[:10] + struct.pack("!H", checksum(quoted)) + quoted[12:]
packet = error + quoted + about
if to.version == 4:
    packet = packet[:2] + struct.pack("!H", checksum(packet)) + packet[4:]
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
else:
    s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
s.sendto(packet, (sys.argv[1], 0))`

// refused sends a datagram from a port to another, and prints how it was refused.
const refused = `
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", int(sys.argv[2]))); s.connect((sys.argv[1], int(sys.argv[3]))); s.settimeout(float(sys.argv[4])); s.send(b"hello")
try: s.recv(1)
except ConnectionRefusedError: print("refused")
except TimeoutError: pass`

// python returns the output of a script in a network namespace; empty: the test's.
func python(t *testing.T, namespace, script string, args ...any) string {
	t.Helper()
	program := testkit.Python + " -ISc '" + script + "' " + strings.TrimSpace(fmt.Sprintln(args...))
	if namespace != "" {
		program = "nsenter --net=" + namespace + " " + program
	}
	return run(t, program)
}

// A pod that sends ICMP errors about packets between nodes could make all of them small, or have those of tunnels
// lost: the kernel believes every sender. Errors about packets to the pod itself pass.
func TestErrorsOfEndpointsAreAboutWhatTheyWereSent(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset; ip route flush cache") })
	run(t, "set -- "+inside+" "+world+shareTopology+`
ip route add 198.51.100.80/32 via 172.19.0.7; ip route add 2001:db8:5::80/128 via fd63:6f6e:7469:7601::7
nsenter --net="$1" sh -ec 'ip link set lo up; ip addr add 198.51.100.80/32 dev lo; ip addr add 2001:db8:5::80/128 dev lo nodad
sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0'
nsenter --net="$2" sh -ec 'ip route add default via 203.0.113.1; ip -6 route add default via 2001:db8::1'
for chain in in there; do
	nft add rule inet seen $chain iifname contivh0 icmp type destination-unreachable icmp code 4 counter
	nft add rule inet seen $chain iifname contivh0 icmpv6 type packet-too-big counter
done`)
	guarded := Closed{VXLANPort: 4789, Nodes: []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2"),
		netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")}}
	in := entrances{agent.Entrances{Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.80"), netip.MustParseAddr("2001:db8:5::80")}}, wayOut, nil}
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, guarded, "inb01", 2000).with(in)); err != nil {
		t.Fatal(err)
	}
	const tunnel = 40000 // the source port of the host's tunnel
	for _, v := range []struct{ host, peer, pod, service string }{
		{"203.0.113.1", "203.0.113.2", "172.19.0.7", "198.51.100.80"},
		{"2001:db8::1", "2001:db8::2", "fd63:6f6e:7469:7601::7", "2001:db8:5::80"},
	} {
		python(t, "", refused, v.peer, tunnel, 4789, 0.01) // the tracker knows of it
		for _, port := range []int{0, tunnel} {
			python(t, inside, tooBig, v.host, v.peer, port)
			python(t, inside, tooBig, v.peer, v.host, port) // through the host
		}
		// Errors about packets to the pod itself follow: from the host, and from a client outside.
		for namespace, to := range map[string]string{"": v.pod, world: v.service} {
			testkit.Eventually(t, time.Minute, "an endpoint refuses what comes to "+to, func() bool {
				return strings.Contains(python(t, namespace, refused, to, 0, 9, 5), "refused")
			})
		}
		if got := run(t, "ip route get "+v.peer); strings.Contains(got, "mtu") {
			t.Errorf("an endpoint has made the packets of the host small: %s", got)
		}
		if got := run(t, "nsenter --net="+world+" ip route get "+v.host); strings.Contains(got, "mtu") {
			t.Errorf("an endpoint has made the packets of another machine small: %s", got)
		}
	}
	for _, chain := range []string{"in", "there"} {
		if got := run(t, "nft list chain inet seen "+chain); strings.Count(got, "packets 0 ") != 2 {
			t.Errorf("errors about what an endpoint was not sent:\n%s", got)
		}
	}
}

// Hosts reach each other by infra networks, too, and register their addresses there: each gets the other's ICMP
// errors. Pods send none about packets between hosts, as they cannot send from the address of a host.
func TestHostsAreToldOfErrorsByInfraNetworks(t *testing.T) {
	testkit.NeedsMachine(t)
	other := fakenode.NewNamespace(t) // another host, and a pod, which sends packets without another source
	t.Cleanup(func() { run(t, "nft flush ruleset; ip link del contivh1") })
	run(t, "set -- "+other+`
ip link add contivh1 type veth peer name eth0 netns "$1"
ip link set contivh1 group 194 up; ip addr add 198.18.9.1/24 dev contivh1; ip addr add 2001:db8:9::1/64 dev contivh1 nodad
nsenter --net="$1" sh -ec 'ip link set eth0 up; ip addr add 198.18.9.3/24 dev eth0; ip addr add 198.18.9.2/24 dev eth0
ip addr add 2001:db8:9::3/64 dev eth0 nodad; ip addr add 2001:db8:9::2/64 dev eth0 nodad preferred_lft 0
sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0'
nft add table inet seen; nft add chain inet seen in '{ type filter hook input priority 300; }'
nft add rule inet seen in icmp type destination-unreachable icmp code 4 counter; nft add rule inet seen in icmpv6 type packet-too-big counter`)
	guarded := Closed{VXLANPort: 4789, Nodes: addresses("198.18.9.1", "198.18.9.2", "2001:db8:9::1", "2001:db8:9::2")}
	var r rules
	if err := r.apply(t.Context(), tableForInfra(guarded, 2000)); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ host, peer string }{{"198.18.9.1", "198.18.9.2"}, {"2001:db8:9::1", "2001:db8:9::2"}} {
		testkit.Eventually(t, time.Minute, "another host refuses what comes to "+v.peer, func() bool {
			return strings.Contains(python(t, "", refused, v.peer, 0, 9, 1), "refused")
		})
		python(t, "", refused, v.peer, 40000, 4789, 0.01) // the tracker knows of it
		python(t, other, tooBig, v.host, v.peer, 40000)
	}
	if got := run(t, "nft list chain inet seen in"); strings.Count(got, "packets 0 ") != 2 {
		t.Errorf("an endpoint tells of what hosts sent each other:\n%s", got)
	}
}

// A machine outside the cluster sends its answers for a pod to the pod's node. A pod that reports them as too big
// would lower the path MTU of all that this machine sends the node, and by an error about a connection of the node
// itself that of the other direction.
func TestNoEndpointMakesSmallWhatItsNodeIsSent(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset; ip route flush cache") })
	run(t, "set -- "+inside+" "+world+shareTopology+`
nft add rule inet seen there iifname contivh0 icmp type destination-unreachable counter
nft add rule inet seen there iifname contivh0 icmpv6 type { destination-unreachable, packet-too-big } counter`)
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, Closed{VXLANPort: 4789, Nodes: addresses("203.0.113.1", "2001:db8::1")}, "inb01", 2000)); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ pod, host, peer string }{
		{"172.19.0.7", "203.0.113.1", "203.0.113.2"},
		{"fd63:6f6e:7469:7601::7", "2001:db8::1", "2001:db8::2"},
	} {
		const port = 40000
		answers := datagrams(t, world, v.peer, port)
		asks := datagrams(t, inside, v.pod, 4789) // tooBig names it as the receiver
		if _, err := asks.WriteTo([]byte("hello"), answers.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		_, from, err := answers.ReadFrom(make([]byte, 16))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := answers.WriteTo([]byte("hello"), from); err != nil {
			t.Fatal(err)
		}
		if _, _, err := asks.ReadFrom(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		python(t, inside, tooBig, v.peer, v.pod, port)
		if got := run(t, "nsenter --net="+world+" ip route get "+v.host); strings.Contains(got, "mtu") {
			t.Errorf("an endpoint has made small what another machine sends its node: %s", got)
		}
		own := datagrams(t, "/proc/thread-self/ns/net", v.host, 0) // of the node, which is the test itself
		if _, err := own.WriteTo([]byte("hello"), &net.UDPAddr{IP: net.ParseIP(v.peer), Port: 4789}); err != nil {
			t.Fatal(err)
		}
		python(t, inside, tooBig, v.host, v.peer, netip.MustParseAddrPort(own.LocalAddr().String()).Port())
		if got := run(t, "ip route get "+v.peer); strings.Contains(got, "mtu") {
			t.Errorf("an endpoint has made small what its node sends another machine: %s", got)
		}
		// Other errors arrive.
		_ = asks.Close()
		if _, err := answers.WriteTo([]byte("hello"), from); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, time.Minute, "an endpoint refuses what it was sent", func() bool {
		return strings.Count(run(t, "nft list chain inet seen there"), "packets 1 ") == 2
	})
}

// An endpoint that knows the ports of another one's connection, or of the host's, could refuse it, make its
// packets small, and reach the other endpoint with anything, in another tenant, too.
func TestNoEndpointTellsOfWhatOthersWereSent(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset; ip route flush cache") })
	run(t, "set -- "+inside+" "+world+shareTopology+`
nsenter --net="$1" ip addr add fd63:6f6e:7469:7601::8/64 dev eth0 nodad preferred_lft 0
nsenter --net="$2" sh -ec 'ip addr add 203.0.113.9/24 dev eth0; ip addr add 2001:db8::9/64 dev eth0 nodad'
for chain in in there; do
	nft add rule inet seen $chain iifname contivh0 icmp type destination-unreachable counter
	nft add rule inet seen $chain iifname contivh0 icmpv6 type packet-too-big counter
done`)
	guarded := Closed{VXLANPort: 4789, Nodes: addresses("203.0.113.1", "2001:db8::1")}
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, guarded, "inb01", 2000)); err != nil {
		t.Fatal(err)
	}
	const port = 5000
	for _, v := range []struct{ pod, host, server string }{
		{"172.19.0.8", "203.0.113.1", "203.0.113.9"},
		{"fd63:6f6e:7469:7601::8", "2001:db8::1", "2001:db8::9"},
	} {
		server := datagrams(t, world, v.server, port)
		for _, client := range []*net.UDPConn{datagrams(t, inside, v.pod, 0), datagrams(t, "/proc/thread-self/ns/net", v.host, 0)} {
			exchange(t, client, server, func(at int) { python(t, inside, tooBig, v.host, v.server, at, port) })
		}
		if got := run(t, "ip route get "+v.server); strings.Contains(got, "mtu") {
			t.Errorf("an endpoint has made the packets of the host small: %s", got)
		}
	}
	for _, chain := range []string{"in", "there"} {
		if got := run(t, "nft list chain inet seen "+chain); strings.Count(got, "packets 0 ") != 2 {
			t.Errorf("errors about what others were sent:\n%s", got)
		}
	}
}

// exchange sends a server a datagram and has it answered. What happens before and after the answer, with the port from
// which the server was asked, must not keep the client from reading it.
func exchange(t *testing.T, client, server *net.UDPConn, meanwhile func(at int)) {
	t.Helper()
	if _, err := client.WriteTo([]byte("hello"), server.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	_, from, err := server.ReadFrom(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	meanwhile(from.(*net.UDPAddr).Port)
	if _, err := server.WriteTo([]byte("hello"), from); err != nil {
		t.Fatal(err)
	}
	meanwhile(from.(*net.UDPAddr).Port)
	if _, _, err := client.ReadFrom(make([]byte, 16)); err != nil {
		t.Errorf("%s: what it was answered: %v", client.LocalAddr(), err)
	}
}

// An ICMP error about a packet to a node port comes from the switch's address for node ports, which is no
// endpoint's.
func TestWhoAsksANodePortIsToldWhatIsTooBig(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology+`
nsenter --net="$1" sh -ec 'ip addr add 172.19.255.253/16 dev eth0; ip addr add fd63:6f6e:7469:7601::fffd/64 dev eth0 nodad
ip route add 203.0.113.2/32 via 172.19.255.254 src 172.19.255.253; ip route add 2001:db8::2/128 via fd63:6f6e:7469:7601::fffe src fd63:6f6e:7469:7601::fffd'`)
	const port = 30007
	in := entrances{agent.Entrances{NodePorts: []agent.NodePort{{Protocol: openflow.ProtoUDP, Port: port}}}, wayOut, Everywhere()}
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, Closed{VXLANPort: 4789}, "inb01", 2000).with(in)); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ client, host, at string }{
		{"203.0.113.2", "203.0.113.1", "172.19.255.253"},
		{"2001:db8::2", "2001:db8::1", "fd63:6f6e:7469:7601::fffd"},
	} {
		server, client := datagrams(t, inside, v.at, port), datagrams(t, world, v.client, 0)
		if _, err := client.WriteTo([]byte("hello"), &net.UDPAddr{IP: net.ParseIP(v.host), Port: port}); err != nil {
			t.Fatal(err)
		}
		_, from, err := server.ReadFrom(make([]byte, 16))
		if err != nil {
			t.Fatal(err)
		}
		python(t, inside, tooBig, v.client, v.at, from.(*net.UDPAddr).Port, port)
		if got := run(t, "nsenter --net="+world+" ip route get "+v.host); !strings.Contains(got, "mtu") {
			t.Errorf("who asks %s is not told that it was too big: %s", v.host, got)
		}
	}
}

// datagrams opens a UDP socket in a network namespace.
func datagrams(t *testing.T, namespace, address string, port int) (c *net.UDPConn) {
	t.Helper()
	ns, err := netns.GetFromPath(namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := netspace.In(&ns, func() (err error) {
		c, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(address), Port: port})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}
