package ovsd_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// firstHop sends one datagram with a hop limit to port 7 of an address, and prints the ICMP error that it gets,
// and its source.
const firstHop = `
import select, socket, sys
to = sys.argv[1]
six = ":" in to
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
level, errors, hops = (41, 25, 16) if six else (0, 11, 2)
s.setsockopt(level, errors, 1)
s.setsockopt(level, hops, int(sys.argv[2]))
s.connect((to, 7))
s.send(b"x" * 30)
p = select.poll()
p.register(s, 0)
if not p.poll(1000):
    sys.exit("nothing is said")
_, said, _, about = s.recvmsg(100, 200, socket.MSG_ERRQUEUE)
error = said[0][2]
at = error[24:40] if six else error[20:24]
print(error[5], error[6], socket.inet_ntop(s.family, at), about[0])
`

// For any packet that a pod sends to be routed, the gateway of its network sends "hop limit exceeded": to another
// network, to its own by the gateway, to a service, and outside. The error about a packet to a service has the
// service's address as source, like all translated packets, as in Linux.
func TestTheGatewayIsAHopForPods(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a := n.newPod(r, 1)
	six, other, far, elsewhere := networksOf(a)
	vips := []netip.Addr{netip.MustParseAddr("10.1.0.200"), netip.MustParseAddr("fd00:1::c8")}
	service := pipeline.Service{ID: "web:blue", VRF: six.VRF, Tag: six.Tag, Providers: []netip.Addr{elsewhere.IPv4, elsewhere.IPv6}}
	for _, vip := range vips {
		service.Ports = append(service.Ports, pipeline.ServicePort{Address: vip, From: pipeline.FromPods, Protocol: 17, Port: 7, Target: 7})
	}
	service = service.Numbered(func(uint32) bool { return false })
	r.tellICMPErrors()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{six, other, a.endpoint, far, elsewhere, service}})
	a.exec("ip", "address", "add", a.endpoint.IPv6.String()+"/64", "dev", "eth0", "nodad")
	a.exec("ip", "route", "add", "default", "via", six.Gateway.String())
	a.exec("ip", "route", "add", "default", "via", six.Gateway6.String())
	a.exec("ip", "route", "add", far.IPv4.String(), "via", six.Gateway.String())
	for _, to := range append([]netip.Addr{elsewhere.IPv4, elsewhere.IPv6, far.IPv4, netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8:5::1")}, vips...) {
		error, by := "11 0", six.Gateway
		if to.Is6() {
			error, by = "3 0", six.Gateway6
		}
		if slices.Contains(vips, to) {
			by = to
		}
		want := fmt.Sprint(error, " ", by, " ", to)
		var said string
		eventually(t, "the pod is told of its packet to "+to.String(), func() bool {
			out, _ := a.command(testkit.Python, "-ISc", firstHop, to.String(), "1").CombinedOutput()
			said = strings.TrimSpace(string(out))
			return said == want
		})
	}
	if out, _ := a.command(testkit.Python, "-ISc", firstHop, elsewhere.IPv4.String(), "2").CombinedOutput(); !strings.Contains(string(out), "nothing is said") {
		t.Errorf("of a packet that can live another hop is said: %s", out)
	}
	if out, _ := a.command(testkit.Python, "-ISc", firstHop, far.IPv6.String(), "1").CombinedOutput(); !strings.Contains(string(out), "nothing is said") {
		t.Errorf("of a packet within its network is said: %s", out)
	}
}
