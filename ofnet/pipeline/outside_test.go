package pipeline

import (
	"bytes"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

// beyond are addresses that the example's host reaches; they represent the world.
var beyond = []netip.Addr{addr("198.51.100.1"), addr("2001:db8::1")}

// withOutside gives the node of a pod a host: a namespace with the addresses of the world.
func (c *cluster) withOutside(of Endpoint, more ...Object) *pod {
	c.t.Helper()
	n := c.pod(of).node
	host := &pod{Endpoint: Endpoint{ID: "host"}, t: c.t, node: n, port: portOf(wayOut), netns: n.Netns + "-host"}
	host.netnsCommand("add")
	c.t.Cleanup(func() { host.netnsCommand("del") })
	n.Exec("sh", "-ec", `
ip link add way type veth peer name contivh0 netns "$1"
ip link set way up
ip -n "$1" link set contivh0 address "$2" mtu 1450 arp off
ip netns exec "$1" ethtool -K contivh0 tx off >/dev/null
ip -n "$1" link set contivh0 up
ip -n "$1" addr add "$3" dev contivh0
ip -n "$1" addr add "$4" dev contivh0 nodad
ip -n "$1" link set lo up
ip -n "$1" addr add "$5/32" dev lo
ip -n "$1" addr add "$6/128" dev lo
ovs-vsctl --db="unix:$7" --timeout=60 add-port br-int way -- set interface way ofport_request="$8"`, "sh",
		host.netns, net.HardwareAddr(wayOut.MAC[:]).String(), hostPrefix(wayOut.Prefix), hostPrefix(wayOut.Prefix6),
		beyond[0].String(), beyond[1].String(), n.Socket, strconv.Itoa(int(host.port)))
	n.AwaitLink("way")
	c.program(append(more, wayOut)...)
	return host
}

// hostPrefix returns the host's own address, with the length of the prefix.
func hostPrefix(p netip.Prefix) string {
	return netip.PrefixFrom(OutsideAddress(p, OutsideHost), p.Bits()).String()
}

// Endpoints of two tenants with one address connect to the world, and the host distinguishes them; it reaches each
// of them by the address by which it knows them.
func TestEndpointsReachTheWorldByTheirHost(t *testing.T) {
	c := startCluster(t, web1, red1, db1)
	host := c.withOutside(web1)
	for _, e := range []Endpoint{web1, red1, db1} {
		p := c.pod(e)
		for i, prefix := range wayOut.Prefixes() {
			if got := p.pinged(beyond[i]); got != 64 {
				t.Errorf("%s pings %s: TTL %d", e.ID, beyond[i], got)
			}
			if got := host.pinged(OutsideAddress(prefix, p.port)); got != 63 {
				t.Errorf("the host pings %s: TTL %d", e.ID, got)
			}
			if got := p.asked(host, beyond[i]); got != OutsideAddress(prefix, p.port).String() {
				t.Errorf("%s calls %s as %s", e.ID, beyond[i], got)
			}
		}
	}
}

// asked returns the address from which a TCP connection of a pod reaches an address
// of another one.
func (p *pod) asked(server *pod, at netip.Addr) (caller string) {
	p.t.Helper()
	var listener net.Listener
	err := server.inside(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(at, 80).String())
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	defer listener.Close()
	err = p.inside(func() error {
		conn, err := net.DialTimeout("tcp", listener.Addr().String(), soon)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		return err.Error()
	}
	conn, err := listener.Accept()
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	return conn.RemoteAddr().(*net.TCPAddr).IP.String()
}

// Of two tenants with one address.
func TestDatagramsInFragmentsReachTheWorldAndComeBack(t *testing.T) {
	c := startCluster(t, knownOutside(web1), knownOutside(red1))
	host := c.withOutside(web1)
	long := make([]byte, 9000)
	for i := range long {
		long[i] = byte(i)
	}
	server := host.datagrams(53)
	for _, e := range []Endpoint{web1, red1} {
		client := c.pod(e).datagrams(4000)
		for _, to := range beyond {
			if _, err := client.WriteToUDPAddrPort(long, netip.AddrPortFrom(to, 53)); err != nil {
				t.Fatal(err)
			}
			buffer := make([]byte, 10_000)
			_ = server.SetReadDeadline(time.Now().Add(soon))
			n, from, err := server.ReadFromUDPAddrPort(buffer)
			if err != nil || !bytes.Equal(buffer[:n], long) {
				t.Errorf("%s to %s: %d bytes arrive, %v", e.ID, to, n, err)
				continue
			}
			if want := c.outsideAddress(e, to); from.Addr().Unmap() != want || from.Port() != 4000 {
				t.Errorf("%s calls as %s, want %s", e.ID, from, want)
			}
			if _, err := server.WriteToUDPAddrPort(long, from); err != nil {
				t.Fatal(err)
			}
			if got := next(client, soon); !bytes.Equal(got, long) {
				t.Errorf("%s from %s: %d bytes come back", e.ID, to, len(got))
			}
		}
	}
}

// knownOutside returns an endpoint as the node of wayOut has it.
func knownOutside(e Endpoint) Endpoint {
	e.Private = wayOut.Prefix
	return e
}

// outsideAddress returns the address by which its host knows an endpoint.
func (c *cluster) outsideAddress(e Endpoint, like netip.Addr) netip.Addr {
	if like.Is6() {
		return OutsideAddress(wayOut.Prefix6, c.pod(e).port)
	}
	return OutsideAddress(wayOut.Prefix, c.pod(e).port)
}

func TestOnlyWhatIsForOutsideGoesThere(t *testing.T) {
	c := startCluster(t, web1, db1)
	denied := prefix("203.0.113.0/24")
	c.withOutside(web1, rule("no", 1, func(r *Rule) { r.SrcGroup, r.Dst = front, denied }), rule("no-answers", 1, func(r *Rule) { r.DstGroup, r.Src = front, denied }))
	n, port, host := c.pod(web1).node, c.pod(web1).port, portOf(wayOut)
	out := packet{inPort: port, src: web1.MAC, dst: AnycastMAC, from: web1.IPv4, to: beyond[0]}
	in := packet{inPort: host, src: wayOut.MAC, dst: wayOut.MAC, from: beyond[0], to: OutsideAddress(wayOut.Prefix, port)}
	if got := n.verdict(t, out); !strings.Contains(got, strconv.Itoa(int(host))) {
		t.Errorf("to the world: %s", got)
	}
	if got := n.verdict(t, in); !strings.Contains(got, strconv.Itoa(int(port))) {
		t.Errorf("from the world: %s", got)
	}
	out6 := with(out, func(p *packet) { p.from, p.to = web1.IPv6, beyond[1] })
	if got := n.verdict(t, out6); !strings.Contains(got, strconv.Itoa(int(host))) {
		t.Errorf("to the world by IPv6: %s", got)
	}
	for name, odd := range map[string]packet{
		"an address of IPv6 of the own network":         with(out6, func(p *packet) { p.to = addr("fd00:1::77") }),
		"an address of IPv6 of another network":         with(out6, func(p *packet) { p.to = addr("fd00:2::77") }),
		"the private address of IPv6 of another":        with(out6, func(p *packet) { p.to = OutsideAddress(wayOut.Prefix6, c.pod(db1).port) }),
		"the loopback address of IPv6":                  with(out6, func(p *packet) { p.to = addr("::1") }),
		"multicast of IPv6":                             with(out6, func(p *packet) { p.to = addr("ff0e::1") }),
		"an address of the own network that nobody has": with(out, func(p *packet) { p.to = addr("10.1.1.77") }),
		"an address of another network that nobody has": with(out, func(p *packet) { p.to = addr("10.1.2.77") }),
		"the private address of another":                with(out, func(p *packet) { p.to = OutsideAddress(wayOut.Prefix, c.pod(db1).port) }),
		"a loopback address":                            with(out, func(p *packet) { p.to = addr("127.0.0.1") }),
		"multicast":                                     with(out, func(p *packet) { p.to = addr("224.0.0.1") }),
		"broadcast":                                     with(out, func(p *packet) { p.to = addr("255.255.255.255") }),
		"not to the gateway":                            with(out, func(p *packet) { p.dst = wayOut.MAC }),
		"in another's name":                             with(out, func(p *packet) { p.from = db1.IPv4 }),
		"what a rule denies":                            with(out, func(p *packet) { p.to = addr("203.0.113.9") }),
		"an answer that a rule denies":                  with(in, func(p *packet) { p.from = addr("203.0.113.9") }),
		"the host to an endpoint's own address":         with(in, func(p *packet) { p.to = web1.IPv4 }),
		"the host to a port that nobody has":            with(in, func(p *packet) { p.to = OutsideAddress(wayOut.Prefix, 4000) }),
		"the host to itself":                            with(in, func(p *packet) { p.to = OutsideAddress(wayOut.Prefix, OutsideHost) }),
		"the host to multicast that ends like one": with(in, func(p *packet) {
			p.dst, p.to = mac{1, 0, 0x5e, 0, 0, byte(port)}, addr("224.0.0."+strconv.Itoa(int(port)))
		}),
		"the host to broadcast that ends like one":          with(in, func(p *packet) { p.to = addr("255.255.0." + strconv.Itoa(int(port))) }),
		"the host to another prefix that ends like one":     with(in, func(p *packet) { p.to = addr("10.99.0." + strconv.Itoa(int(port))) }),
		"another node to a private address":                 with(in, func(p *packet) { p.inPort, p.vni = exampleTunnelPort, webBlue.VNI }),
		"an endpoint to the private address of one, by MAC": with(out, func(p *packet) { p.dst, p.to = web1.MAC, OutsideAddress(wayOut.Prefix, port) }),
	} {
		if got := n.verdict(t, odd); got != "drop" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := n.verdict(t, with(out, func(p *packet) { p.kind = "udp,nw_ttl=1" })); !asksSwitchAlone.MatchString(got) {
		t.Errorf("at the end of its life: %s", got)
	}
}

func with(p packet, change func(*packet)) packet {
	change(&p)
	return p
}

func TestOutsideWithoutPrefixesMakesNoSense(t *testing.T) {
	for _, odd := range []Outside{{ID: "x"}, {ID: "x", Prefix: prefix("10.0.0.0/8")}, {ID: "x", Prefix: wayOut.Prefix6}, {ID: "x", Prefix: wayOut.Prefix, Prefix6: prefix("fd00::/120")}} {
		if _, err := node1().For(odd, 7); err == nil {
			t.Errorf("%+v is accepted", odd)
		}
	}
}
