package ovsd_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// echoes answers datagrams at a port, at IPv4 and IPv6 addresses.
const echoes = `
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(("::", int(sys.argv[1])))
print("ready", flush=True)
while True:
    d, a = s.recvfrom(65536); s.sendto(d, a)
`

// tooBigAnswer sends a request to a node port as an external client and then, as a router on the path to that
// client, the error that the answer was too big: the MTU there is 1300. The host has translated both to the
// switch's address for node ports.
const tooBigAnswer = `
import socket, struct, sys
node, port, client = sys.argv[1], int(sys.argv[2]), sys.argv[3]
six = ":" in node
family = socket.AF_INET6 if six else socket.AF_INET
def checksum(b):
    b += b"\0" * (len(b) % 2)
    s = sum(struct.unpack("!%dH" % (len(b) // 2), b)); s = (s >> 16) + (s & 0xffff); return ~(s + (s >> 16)) & 0xffff
u = socket.socket(family, socket.SOCK_DGRAM); u.bind((client, 0)); u.settimeout(2); u.connect((node, port))
for tries in range(30):
    try:
        u.send(b"question"); u.recv(100); break
    except socket.timeout: pass
udp = struct.pack("!HHHH", port, u.getsockname()[1], 1408, 0)
a, b = socket.inet_pton(family, node), socket.inet_pton(family, client)
if six:
    raw = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) # the kernel computes the checksum
    raw.sendto(struct.pack("!BBHI", 2, 0, 0, 1300) + struct.pack("!IHBB", 0x60000000, 1408, 17, 63) + a + b + udp, (node, 0))
else:
    raw = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 1428, 1, 0x4000, 63, 17, 0) + a + b
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    icmp = struct.pack("!BBHHH", 3, 4, 0, 0, 1300) + ip + udp
    raw.sendto(icmp[:2] + struct.pack("!H", checksum(icmp)) + icmp[4:], (node, 0))
`

// An error about an answer has the common address of all node ports as destination, and quotes the port. If
// several tenants have node ports, the agent finds the tenant of that port.
func TestErrorsAboutAnswersFromNodePortsOfSeveralTenantsReachTheProvider(t *testing.T) {
	n := newNode(t)
	r := n.start()
	blue, red := network, network
	red.ID, red.Tenant, red.VRF, red.VNI, red.Tag = "web.red", "red", 2, 5002, 2
	host := r.add("host")
	out := pipeline.Outside{ID: "host", MAC: [6]byte{2, 2, 2, 2, 2, 2}, Prefix: netip.MustParsePrefix("172.19.0.0/16"), Prefix6: netip.MustParsePrefix("fd63:6f6e:7469:7601::/64")}
	n.Exec("sh", "-ec", `
ip link set "$1" name contivh0 address 02:02:02:02:02:02 arp off
ethtool -K contivh0 tx off >/dev/null
ip link set contivh0 up
ip address add 172.19.255.254/16 dev contivh0
ip address add fd63:6f6e:7469:7601::fffe/64 dev contivh0 nodad
ip address add 203.0.113.7/32 dev lo
ip address add 2001:db8:5::7/128 dev lo nodad`, "sh", host.PodLink)
	all := drivers.Change{Replace: true, Set: []pipeline.Object{out}}
	vrfOf := map[uint16]uint16{}
	var providers []*pod
	for i, in := range []pipeline.Network{blue, red} { // their endpoints have the same addresses
		in.Subnet6, in.Gateway6 = netip.MustParsePrefix("fd00:1::/64"), netip.MustParseAddr("fd00:1::fe")
		e := endpoint(1, 0)
		e.ID, e.Network, e.Tenant, e.VRF, e.VNI, e.Tag = in.ID+"-1", in.ID, in.Tenant, in.VRF, in.VNI, in.Tag
		e.IPv6 = netip.MustParseAddr("fd00:1::1")
		p := n.podAt(e, r.add(e.ID), byte(i+1))
		p.exec("ip", "address", "add", e.IPv6.String()+"/64", "dev", "eth0", "nodad")
		p.exec("ip", "route", "add", "default", "via", in.Gateway.String())
		p.exec("ip", "route", "add", "default", "via", in.Gateway6.String())
		p.start(echoes, "7")
		providers = append(providers, p)
		s := pipeline.Service{ID: "echo:" + in.Tenant, VRF: in.VRF, Tag: in.Tag, Providers: []netip.Addr{e.IPv4, e.IPv6}}
		port := uint16(30007 + i)
		vrfOf[port] = in.VRF
		for _, private := range out.Prefixes() {
			s.Ports = append(s.Ports, pipeline.ServicePort{Address: pipeline.NodePorts(private), From: pipeline.FromHost, Protocol: openflow.ProtoUDP, Port: port, Target: 7, Shared: true})
		}
		all.Set = append(all.Set, in, e, s.Numbered(func(uint32) bool { return false }))
	}
	r.tellICMPErrors(func(protocol uint8, port uint16) uint16 {
		if protocol != openflow.ProtoUDP {
			return 0
		}
		return vrfOf[port]
	})
	r.give(all)
	for i, client := range []string{"203.0.113.7", "2001:db8:5::7"} {
		node := pipeline.NodePorts(out.Prefixes()[i])
		for j, p := range providers {
			told := func(p *pod) bool {
				if node.Is6() { // this datapath overwrites the MTU as if it were the checksum of UDP
					return !strings.Contains(strings.Join(strings.Fields(p.exec("cat", "/proc/net/snmp6")), " "), "Icmp6InPktTooBigs 0 ")
				}
				return strings.Contains(p.exec("ip", "route", "get", client), "mtu 1300")
			}
			if told(p) {
				t.Errorf("%s is told what is said to another tenant's", p.endpoint.ID)
			}
			eventually(t, fmt.Sprintf("%s is told what its answer to %s was too big for", p.endpoint.ID, client), func() bool {
				n.Exec(testkit.Python, "-ISc", tooBigAnswer, node.String(), fmt.Sprint(30007+j), client)
				return told(p)
			})
		}
	}
}
