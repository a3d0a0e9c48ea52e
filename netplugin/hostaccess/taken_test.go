package hostaccess

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// takenSeen keeps the ports that were reported last, as text.
type takenSeen struct {
	nobody
	ports []string
}

func (s *takenSeen) TellTaken(all []agent.TakenPort) {
	s.ports = nil
	for _, p := range all {
		of := p.Endpoint
		if p.Address.IsValid() {
			of = p.Address.String()
		}
		s.ports = append(s.ports, fmt.Sprint(p.Protocol, " ", p.Port, " ", of, " ", p.By))
	}
}

// A process of the host gets no packets at a port that leads to endpoints: the conflict is reported with the
// port's user.
func TestPortsThatProcessesOfTheHostHaveAreTold(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, `ip link set lo up; ip addr add 192.0.2.1/32 dev lo; ip addr add 198.51.100.1/32 dev lo`)
	t.Cleanup(func() { run(t, "ip addr del 192.0.2.1/32 dev lo; ip addr del 198.51.100.1/32 dev lo") })
	listen := func(network, at string) {
		var c interface{ Close() error }
		var err error
		if network[:3] == "tcp" {
			c, err = net.Listen(network, at)
		} else {
			c, err = net.ListenPacket(network, at)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	listen("tcp", ":30080")
	listen("tcp", "127.0.0.1:30081")
	listen("udp", "192.0.2.1:30082")
	listen("udp", "198.51.100.1:30083")
	listen("tcp4", "127.0.0.1:8080")
	listen("tcp6", "[::1]:8081")
	listen("tcp", "192.0.2.1:8082")
	listen("udp4", ":8083")
	for _, at := range []string{":30085", ":8084", ":8085", ":8086"} {
		listen("tcp6", at) // takes nothing of IPv4
	}
	listen("tcp4", ":8087")
	connected, err := net.Dial("udp", "192.0.2.1:9") // takes from nobody else
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	at := connected.LocalAddr().(*net.UDPAddr).AddrPort()

	node := func(protocol uint8, port uint16) agent.NodePort {
		return agent.NodePort{Protocol: protocol, Port: port}
	}
	in := entrances{agent.Entrances{NodePorts: []agent.NodePort{
		node(openflow.ProtoTCP, 30080), node(openflow.ProtoUDP, 30080), node(openflow.ProtoTCP, 30081), node(openflow.ProtoUDP, 30082),
		node(openflow.ProtoUDP, 30083), node(openflow.ProtoTCP, 30084), node(openflow.ProtoUDP, at.Port()), node(openflow.ProtoTCP, 30085),
	}, Balanced: []agent.Balanced{
		{Address: netip.MustParseAddr("198.51.100.1"), NodePort: node(openflow.ProtoTCP, 8082)}, // which is another address than that of who listens
		{Address: netip.MustParseAddr("192.0.2.1"), NodePort: node(openflow.ProtoTCP, 8082)},
		{Address: netip.MustParseAddr("198.51.100.1"), NodePort: node(openflow.ProtoUDP, 8083)},
		{Address: netip.MustParseAddr("198.51.100.1"), NodePort: node(openflow.ProtoTCP, 8084)}, // of IPv6 only
		{Address: netip.MustParseAddr("2001:db8::1"), NodePort: node(openflow.ProtoTCP, 8084)},
		{Address: netip.MustParseAddr("198.51.100.1"), NodePort: node(openflow.ProtoTCP, 8080)}, // loopback
	}}, wayOut, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	host := func(protocol, address string, port uint16) HostPort {
		a, _ := netip.ParseAddr(address) // empty: all
		return HostPort{mastercfg.HostPort{Address: a, Protocol: protocol, Port: port}, 7, true, true, "web"}
	}
	of := func(endpoint string, four, six bool, p HostPort) HostPort {
		p.Endpoint, p.IPv4, p.IPv6 = endpoint, four, six
		return p
	}
	ports := hostPorts{[]HostPort{host("tcp", "", 8080), host("tcp", "", 8081), host("tcp", "198.51.100.1", 8082), host("tcp", "192.0.2.1", 8082), host("udp", "198.51.100.1", 8083),
		of("four", true, false, host("tcp", "", 8084)), host("tcp", "", 8085), host("tcp", "192.0.2.1", 8086), of("six", false, true, host("tcp", "", 8087))}, wayOut}
	got := &takenSeen{}
	m := New(Config{Reports: got})
	if err := m.reportTaken(in, ports); err != nil {
		t.Fatal(err)
	}
	want := []string{"tcp 30080  [::]:30080", "udp 30082  192.0.2.1:30082",
		"tcp 8082 192.0.2.1 192.0.2.1:8082", "udp 8083 198.51.100.1 0.0.0.0:8083", "tcp 8084 2001:db8::1 [::]:8084",
		"tcp 8080 web 127.0.0.1:8080", "tcp 8082 web 192.0.2.1:8082", "udp 8083 web 0.0.0.0:8083", "tcp 8085 web [::]:8085"}
	if !slices.Equal(got.ports, want) {
		t.Errorf("%q, want %q", got.ports, want)
	}
	if err := m.reportTaken(entrances{}, hostPorts{}); err != nil || len(got.ports) > 0 {
		t.Errorf("nothing leads into endpoints: %v, %q", err, got.ports)
	}
}

// A host port that is the node port of a service as well, at an address with node ports, gets the packets.
func TestANodePortThatIsAHostPortIsTold(t *testing.T) {
	const port = 30080
	for what, c := range map[string]struct {
		protocol, address string
		six, told         bool
	}{
		"at all addresses":                    {"tcp", "", false, true},
		"at all addresses, of IPv6 alone":     {"tcp", "", true, false},
		"at one that has node ports":          {"tcp", "192.0.2.1", false, true},
		"at one that has none":                {"tcp", "198.51.100.1", false, false},
		"at a loopback address":               {"tcp", "127.0.0.1", false, false},
		"of another protocol, at all of them": {"udp", "", false, false},
	} {
		at := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		if c.address == "127.0.0.1" {
			at = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
		}
		address, _ := netip.ParseAddr(c.address) // empty: all
		in := entrances{agent.Entrances{NodePorts: []agent.NodePort{{Protocol: openflow.ProtoTCP, Port: port}, {Protocol: openflow.ProtoTCP, Port: port + 1}}}, wayOut, at}
		host := hostPorts{[]HostPort{{mastercfg.HostPort{Address: address, Protocol: c.protocol, Port: port}, 7, !c.six, true, "web"}}, wayOut}
		var want []agent.TakenPort
		if c.told {
			want = []agent.TakenPort{{Protocol: "tcp", Port: port, Leads: "web"}}
		}
		if got := takenPorts(in, host, nil); !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
}
