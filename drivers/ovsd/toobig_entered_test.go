package ovsd_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// longAnswers answers requests at a port with 1,500 bytes.
const longAnswers = `
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(("::", int(sys.argv[1])))
print("ready", flush=True)
while True:
    d, a = s.recvfrom(65536)
    try: s.sendto(b"x" * 1500, a)
    except OSError: pass
`

// A pod that answers clients of its host, and the host as client of a pod on another node, know an MTU from before
// the underlay became smaller: both get an ICMP error.
func TestWhoComesInByTheHostAndItsProviderAreToldWhatIsTooBig(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = 100 * time.Millisecond
	r := n.start()
	provider, far := n.newPod(r, 1), remote(9, 0)
	net := network
	net.Subnet6, net.Gateway6 = netip.MustParsePrefix("fd00:1::/64"), netip.MustParseAddr("fd00:1::fe")
	provider.endpoint.IPv6, far.IPv6 = netip.MustParseAddr("fd00:1::1"), netip.MustParseAddr("fd00:1::9")
	host := r.add("host")
	out := pipeline.Outside{ID: "host", MAC: [6]byte{2, 2, 2, 2, 2, 2}, Prefix: netip.MustParsePrefix("172.19.0.0/16"), Prefix6: netip.MustParsePrefix("fd63:6f6e:7469:7601::/64")}
	const here, there = 7, 8 // ports of the service
	external := []string{"203.0.113.80", "2001:db8:5::80"}
	n.Exec("sh", "-ec", `
ip link set "$1" name contivh0 address 02:02:02:02:02:02 arp off
ethtool -K contivh0 tx off >/dev/null
ip link set contivh0 up
ip address add 172.19.255.254/16 dev contivh0
ip address add fd63:6f6e:7469:7601::fffe/64 dev contivh0 nodad
ip route add 203.0.113.80/32 dev contivh0
ip route add 2001:db8:5::80/128 dev contivh0
ip neigh add 203.0.113.80 lladdr 00:00:11:11:11:11 dev contivh0
ip neigh add 2001:db8:5::80 lladdr 00:00:11:11:11:11 dev contivh0`, "sh", host.PodLink)
	service := pipeline.Service{ID: "web:blue", VRF: net.VRF, Tag: net.Tag}
	for i, address := range external {
		for port, at := range map[uint16]netip.Addr{here: []netip.Addr{provider.endpoint.IPv4, provider.endpoint.IPv6}[i], there: []netip.Addr{far.IPv4, far.IPv6}[i]} {
			service.Ports = append(service.Ports, pipeline.ServicePort{Address: netip.MustParseAddr(address), From: pipeline.FromHost, Protocol: openflow.ProtoUDP, Port: port,
				Serving: []netip.AddrPort{netip.AddrPortFrom(at, 7)}})
		}
	}
	r.tellICMPErrors()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{net, provider.endpoint, far, service.Numbered(func(uint32) bool { return false }), out}})
	provider.exec("ip", "address", "add", provider.endpoint.IPv6.String()+"/64", "dev", "eth0", "nodad")
	provider.exec("ip", "route", "add", "default", "via", net.Gateway.String())
	provider.exec("ip", "route", "add", "default", "via", net.Gateway6.String())
	provider.start(longAnswers, "7")
	n.Exec("ip", "link", "set", "under0", "mtu", "1500") // the tunnel then has 1450
	for i, address := range external {
		asks := func(port, bytes string) {
			_, _ = n.Try("bash", "-c", "head -c "+bytes+" /dev/zero >/dev/udp/"+address+"/"+port) // fails once the ICMP error has arrived
		}
		eventually(t, "the host is told of the way to the provider of "+address, func() bool {
			asks("8", "1500")
			return strings.Contains(n.Exec("ip", "route", "get", address), "mtu 1450")
		})
		n.Exec("ip", "route", "flush", "cache")
		n.Exec("ip", "-6", "route", "flush", "cache")
		client := pipeline.OutsideAddress(out.Prefixes()[i], pipeline.OutsideHost).String()
		eventually(t, "the provider is told of the way back to "+client, func() bool {
			asks("7", "10")
			return strings.Contains(provider.exec("ip", "route", "get", client), "mtu 1450")
		})
	}
}
