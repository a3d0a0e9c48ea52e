package ovsd_test

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/icmperror"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// tellICMPErrors answers packets that are too big, or whose hop limit has expired, until the test ends. Node ports
// have no tenant unless vrfOf is given.
func (r *running) tellICMPErrors(vrfOf ...icmperror.NodePorts) {
	vrfOf = append(vrfOf, func(uint8, uint16) uint16 { return 0 })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	log := logrus.New()
	log.SetOutput(io.Discard)
	go func() { ended <- icmperror.Serve(ctx, r, vrfOf[0], logrus.NewEntry(log)) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			r.t.Errorf("Serve returned %v", err)
		}
	})
}

// probes returns the output of ping(8) for one packet of that size with "don't fragment". Path MTUs that the pod
// has learned before are dropped.
func (p *pod) probes(to netip.Addr, size string) string {
	p.t.Helper()
	p.exec("ip", "route", "flush", "cache")
	p.exec("ip", "-6", "route", "flush", "cache")
	out, _ := p.command("ping", "-n", "-c", "1", "-W", "2", "-M", "do", "-s", size, to.String()).CombinedOutput() // fails without an answer
	return string(out)
}

// networksOf returns two dual-stack networks of a pod's tenant, the pod's and another one, and an endpoint on
// another node in each.
func networksOf(a *pod) (six, other pipeline.Network, far, elsewhere pipeline.Endpoint) {
	far = remote(9, 0)
	six = network
	six.Subnet6, six.Gateway6 = netip.MustParsePrefix("fd00:1::/64"), netip.MustParseAddr("fd00:1::fe")
	a.endpoint.IPv6, far.IPv6 = netip.MustParseAddr("fd00:1::1"), netip.MustParseAddr("fd00:1::9")
	elsewhere = remote(8, 0)
	elsewhere.IPv4, elsewhere.IPv6, elsewhere.Network, elsewhere.Tag, elsewhere.VNI = netip.MustParseAddr("10.2.0.8"), netip.MustParseAddr("fd00:2::8"), "db.blue", 2, 5002
	other = six
	other.ID, other.Tag, other.VNI = "db.blue", 2, 5002
	other.Subnet, other.Gateway = netip.MustParsePrefix("10.2.0.0/24"), netip.MustParseAddr("10.2.0.254")
	other.Subnet6, other.Gateway6 = netip.MustParsePrefix("fd00:2::/64"), netip.MustParseAddr("fd00:2::fe")
	return six, other, far, elsewhere
}

// The pod has raised its own MTU; the underlay has 1600 bytes, the tunnel 1550.
func TestAPodIsToldWhichPacketsAreTooBigForTheTunnel(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = 100 * time.Millisecond
	r := n.start()
	a := n.newPod(r, 1)
	six, other, far, elsewhere := networksOf(a)
	r.tellICMPErrors()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{six, other, a.endpoint, far, elsewhere}})
	a.exec("ip", "link", "set", "eth0", "mtu", "9000")
	a.exec("ip", "address", "add", a.endpoint.IPv6.String()+"/64", "dev", "eth0", "nodad")
	a.exec("ip", "route", "add", "default", "via", network.Gateway.String())
	a.exec("ip", "route", "add", "default", "via", six.Gateway6.String())
	told := func(mtu string) {
		t.Helper()
		for _, to := range []netip.Addr{far.IPv4, elsewhere.IPv4, far.IPv6, elsewhere.IPv6} {
			want, gateway := "Frag needed and DF set (mtu = "+mtu+")", network.Gateway
			if to.Is6() {
				want, gateway = "Packet too big: mtu="+mtu, six.Gateway6
			}
			for _, size := range []string{"1540", "8900"} {
				eventually(t, "the pod is told that "+size+" bytes to "+to.String()+" are too big", func() bool {
					said := a.probes(to, size)
					return strings.Contains(said, want) && strings.Contains(strings.ToLower(said), "from "+gateway.String())
				})
			}
		}
	}
	told("1550")
	if said := a.probes(far.IPv4, "1522"); strings.Contains(said, "Frag needed") {
		t.Errorf("what fits exactly: %s", said)
	}
	eventually(t, "they are counted", func() bool {
		return !strings.Contains(n.Ofctl("dump-flows", bridge, "table=31,reg0=0x13000000/0xff000000"), "n_packets=0,")
	})

	n.Exec("ip", "link", "set", "under0", "mtu", "1500")
	told("1450")
}

// Nodes that route VLANs have the MTU of their uplink, which becomes smaller later. It applies on the node itself,
// too.
func TestAPodIsToldWhichPacketsAreTooBigForTheUplink(t *testing.T) {
	rn := newRoutedNode(t)
	rn.r.stop()
	rn.config.AuditInterval = 100 * time.Millisecond
	rn.Exec("ip", "link", "set", "up0", "mtu", "1400")
	r, a, b := rn.startVLAN(), rn.pods[0], rn.pods[1]
	if port, err := r.AddPort(patience(t), pipeline.VLAN, endpoint(3, 0).ID, 0); err != nil || port.MTU != 1400 {
		t.Errorf("the port of a new pod is %+v, %v", port, err)
	}
	net := rn.routed
	net.Subnet6, net.Gateway6 = netip.MustParsePrefix("fd00:1::/64"), netip.MustParseAddr("fd00:1::fe")
	for _, p := range []*pod{a, b} {
		host := p.endpoint.IPv4.As4()[3]
		p.endpoint.IPv6 = netip.AddrFrom16([16]byte{0: 0xfd, 3: 1, 15: host})
		p.exec("ip", "link", "set", "eth0", "mtu", "9000")
		p.exec("ip", "address", "add", p.endpoint.IPv6.String()+"/64", "dev", "eth0", "nodad")
	}
	next := rn.next("198.18.5.1", "native")
	r.tellICMPErrors()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{net, a.endpoint, b.endpoint, rn.router, next, routeTo("198.51.100.0/24", next)}})
	for _, mtu := range []string{"1400", "1300"} {
		rn.Exec("ip", "link", "set", "up0", "mtu", mtu)
		for to, want := range map[netip.Addr]string{
			b.endpoint.IPv4:                     "Frag needed and DF set (mtu = " + mtu + ")",
			b.endpoint.IPv6:                     "Packet too big: mtu=" + mtu,
			netip.MustParseAddr("198.51.100.1"): "Frag needed and DF set (mtu = " + mtu + ")",
		} {
			eventually(t, "the pod is told that the way to "+to.String()+" has "+mtu, func() bool { return strings.Contains(a.probes(to, "1380"), want) })
		}
	}
}

// The host of this test is the switch's namespace, with links that lead nowhere as its world.
func TestAPodIsToldWhatIsTooBigForServicesAndForRoutersOutside(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = time.Second // repeats the query if ovs-vswitchd was too busy to answer
	r := n.start()
	a, provider := n.newPod(r, 1), remote(9, 0)
	net := network
	net.Subnet6, net.Gateway6 = netip.MustParsePrefix("fd00:1::/64"), netip.MustParseAddr("fd00:1::fe")
	a.endpoint.IPv6, provider.IPv6 = netip.MustParseAddr("fd00:1::1"), netip.MustParseAddr("fd00:1::9")
	vips := []netip.Addr{netip.MustParseAddr("10.1.0.200"), netip.MustParseAddr("fd00:1::c8")}
	service := pipeline.Service{ID: "web:blue", VRF: net.VRF, Tag: net.Tag, Providers: []netip.Addr{provider.IPv4, provider.IPv6}}
	for _, vip := range vips {
		service.Ports = append(service.Ports, pipeline.ServicePort{Address: vip, From: pipeline.FromPods, Protocol: 17, Port: 7, Target: 7})
	}
	service = service.Numbered(func(uint32) bool { return false })
	host := r.add("host")
	out := pipeline.Outside{ID: "host", MAC: [6]byte{2, 2, 2, 2, 2, 2}, Prefix: netip.MustParsePrefix("172.19.0.0/16"), Prefix6: netip.MustParsePrefix("fd63:6f6e:7469:7601::/64")}
	n.Exec("sh", "-ec", `
ip link set "$1" name contivh0 address 02:02:02:02:02:02 arp off
ethtool -K contivh0 tx off >/dev/null
ip link set contivh0 up
ip address add 172.19.255.254/16 dev contivh0
ip address add fd63:6f6e:7469:7601::fffe/64 dev contivh0 nodad
ip link add world type veth peer name beyond
ip link set world up
ip link set beyond up
ip address add 203.0.113.1/24 dev world
ip address add 2001:db8:5::1/64 dev world nodad
ip route replace 203.0.113.2/32 dev world mtu lock 1300
ip route replace 2001:db8:5::2/128 dev world mtu lock 1300
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1`, "sh", host.PodLink)
	r.tellICMPErrors()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{net, a.endpoint, provider, service, out}})
	a.exec("ip", "link", "set", "eth0", "mtu", "9000")
	a.exec("ip", "address", "add", a.endpoint.IPv6.String()+"/64", "dev", "eth0", "nodad")
	a.exec("ip", "route", "add", "default", "via", net.Gateway.String())
	a.exec("ip", "route", "add", "default", "via", net.Gateway6.String())

	// The packet that was too big was addressed to the provider; the pod has sent it to the service, whole or in
	// fragments.
	for _, mtu := range []string{"9000", "2000"} {
		a.exec("ip", "link", "set", "eth0", "mtu", mtu)
		for _, vip := range vips {
			a.exec("ip", "route", "flush", "cache")
			a.exec("ip", "-6", "route", "flush", "cache")
			eventually(t, "the pod, which sends "+mtu+" bytes, is told of the way to the service "+vip.String(), func() bool {
				_ = a.command("bash", "-c", "head -c 8000 /dev/zero >/dev/udp/"+vip.String()+"/7").Run() // repeated after the ICMP error
				return strings.Contains(a.exec("ip", "route", "get", vip.String()), "mtu 1550")
			})
		}
	}
	a.exec("ip", "link", "set", "eth0", "mtu", "9000")
	for _, to := range []string{"203.0.113.2", "2001:db8:5::2"} {
		for size, mtu := range map[string]string{"1400": "1300", "8900": "1550"} {
			eventually(t, "the pod is told that "+size+" bytes to "+to+" are too big", func() bool {
				said := strings.ReplaceAll(a.probes(netip.MustParseAddr(to), size), " ", "")
				return strings.Contains(said, "mtu="+mtu)
			})
		}
		eventually(t, "the pod is told that a packet to "+to+" has made too many hops", func() bool {
			said, _ := a.command("ping", "-n", "-c1", "-W1", "-t2", to).CombinedOutput() // fails: there is no answer
			return strings.Contains(string(said), "ime exceeded") || strings.Contains(string(said), "ime to live exceeded")
		})
	}
}
