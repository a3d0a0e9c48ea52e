package hostaccess

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

func TestHostPortsLeadToEndpointsThatHaveTheVersionOfIP(t *testing.T) {
	at := func(address string, four, six bool) HostPort {
		a, _ := netip.ParseAddr(address) // empty: all
		return HostPort{mastercfg.HostPort{Address: a, Protocol: "tcp", Port: 80, To: 8080}, 7, four, six, ""}
	}
	for _, test := range []struct {
		port HostPort
		want string // name of map, element and value
	}{
		{at("", true, false), "host-ports tcp . 80 = 172.19.0.7 . 8080"},
		{at("", true, true), "host-ports tcp . 80 = 172.19.0.7 . 8080, host-ports6 tcp . 80 = fd63:6f6e:7469:7601::7 . 8080"},
		{at("192.0.2.1", true, true), "host-ports-at 192.0.2.1 . tcp . 80 = 172.19.0.7 . 8080"},
		{at("2001:db8::1", true, true), "host-ports-at6 2001:db8::1 . tcp . 80 = fd63:6f6e:7469:7601::7 . 8080"},
		{at("2001:db8::1", true, false), ""},
		{at("192.0.2.1", false, true), ""},
	} {
		var got []string
		for _, s := range (hostPorts{[]HostPort{test.port}, wayOut}).sets() {
			for i := range s.elements {
				got = append(got, s.name+" "+s.elements[i]+" = "+s.values[i])
			}
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%+v: %q, want %q", test.port, text, test.want)
		}
	}
}

// A client that goes on sending datagrams is forwarded to where the port leads now.
func TestDatagramsToAPortThatMovedAreForgotten(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset; ip addr del 192.0.2.1/32 dev lo; conntrack -F 2>/dev/null") })
	run(t, `ip link set lo up; ip addr add 192.0.2.1/32 dev lo
nft 'add table inet t; add chain inet t c { type filter hook output priority 0; }; add rule inet t c ct state new counter'
now() { conntrack -I -p udp -s 192.0.2.9 --sport 5353 -t 60 -u UNSET -r "$3" --reply-port-src "$4" --reply-port-dst 5353 -q 192.0.2.9 -d "$1" --dport "$2" $5; }
now 192.0.2.1 5000 172.19.0.6 1
now 192.0.2.1 5001 172.19.0.7 1
now 192.0.2.1 5002 172.19.0.9 1
now 192.0.2.1 5003 192.0.2.1 5003
now 192.0.2.1 5004 172.19.255.253 5004
now 198.51.100.1 5000 198.51.100.1 5000
now 192.0.2.1 5005 172.19.0.7 1 "-w 7"
now 192.0.2.1 5006 192.0.2.1 5006
now 192.0.2.1 5007 172.19.255.253 5007
now 192.0.2.1 5008 192.0.2.1 5008
now 127.0.0.1 5006 127.0.0.1 5006`)
	port := func(number uint16, to uint32) HostPort {
		return HostPort{mastercfg.HostPort{Protocol: "udp", Port: number, To: 1}, to, true, false, ""}
	}
	m := New(Config{})
	forget := func(services ...agent.NodePort) {
		in := entrances{agent.Entrances{NodePorts: services}, wayOut, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
		if err := m.forget(hostPorts{[]HostPort{port(5000, 8), port(5001, 7), port(5003, 7)}, wayOut}, in, nil); err != nil {
			t.Fatal(err)
		}
	}
	services := []agent.NodePort{{Protocol: openflow.ProtoUDP, Port: 5004}}
	forget(services...)
	services = append(services, agent.NodePort{Protocol: openflow.ProtoUDP, Port: 5006}, agent.NodePort{Protocol: openflow.ProtoTCP, Port: 5008})
	for range 2 { // the second time nothing has changed
		forget(services...)
	}
	left := run(t, "conntrack -L -p udp 2>/dev/null; conntrack -L -p udp -w 7 2>/dev/null")
	for what, want := range map[string]bool{
		"dst=192.0.2.1 sport=5353 dport=5006":    false, // is a node port by now
		"dst=192.0.2.1 sport=5353 dport=5007":    false, // is none any more
		"dst=192.0.2.1 sport=5353 dport=5008":    true,  // one of TCP
		"dst=127.0.0.1 sport=5353 dport=5006":    true,  // has no node ports
		"dst=192.0.2.1 sport=5353 dport=5000":    false, // leads elsewhere
		"dst=192.0.2.1 sport=5353 dport=5001":    true,
		"dst=192.0.2.1 sport=5353 dport=5002":    false, // leads nowhere, since before we began
		"dst=192.0.2.1 sport=5353 dport=5003":    false, // was no host port
		"dst=192.0.2.1 sport=5353 dport=5004":    true,  // of a service
		"dst=198.51.100.1 sport=5353 dport=5000": true,  // another machine's
		"dst=192.0.2.1 sport=5353 dport=5005":    true,  // a switch's
	} {
		if strings.Contains(left, what) != want {
			t.Errorf("%s: want %v, left:\n%s", what, want, left)
		}
	}
	forget()
	if left := run(t, "conntrack -L -p udp 2>/dev/null"); strings.Contains(left, "sport=5353 dport=5004") {
		t.Errorf("the service has gone, left:\n%s", left)
	}
	forget(services...)
	run(t, "conntrack -I -p udp -s 192.0.2.9 --sport 5353 -t 60 -u UNSET -r 172.19.255.253 --reply-port-src 5004 --reply-port-dst 5353 -q 192.0.2.9 -d 192.0.2.1 --dport 5004")
	elsewhere := entrances{agent.Entrances{NodePorts: services}, wayOut, []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}}
	if err := m.forget(hostPorts{m.translations.ports, wayOut}, elsewhere, nil); err != nil {
		t.Fatal(err)
	}
	if left := run(t, "conntrack -L -p udp 2>/dev/null"); strings.Contains(left, "sport=5353 dport=5004") {
		t.Errorf("node ports are at other addresses, left:\n%s", left)
	}
}

// A removed host port leaves no path to the host's loopback addresses.
func TestWithoutHostPortsNoEndpointReachesTheLoopback(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset; ip link del contivh0") })
	run(t, "ip link add contivh0 type veth peer name esw")
	for _, on := range []bool{true, false} {
		if err := routeLoopback(on); err != nil {
			t.Fatal(err)
		}
		if got := read("ipv4/conf/contivh0/route_localnet") == "1"; got != on {
			t.Errorf("host ports %v: addresses of the loopback are routed: %v", on, got)
		}
	}
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).withHostPorts(hostPorts{nil, wayOut})); err != nil {
		t.Fatal(err)
	}
	if got := run(t, "nft list table inet contiv"); !strings.Contains(got, `iifname "contivh0" ip daddr 127.0.0.0/8 drop`) {
		t.Errorf("no guard:\n%s", got)
	}
}

func TestPortsThatTheHostNeedsAreNoHostPorts(t *testing.T) {
	c := Closed{VXLANPort: 4789, Ports: []uint16{2379}, Own: []uint16{10250}}
	port := func(protocol string, number uint16) HostPort {
		return HostPort{HostPort: mastercfg.HostPort{Protocol: protocol, Port: number}}
	}
	fine := []HostPort{port("tcp", 4789), port("udp", 2379), port("tcp", 80)}
	all := append([]HostPort{port("udp", 4789), port("tcp", 2379), port("tcp", 10250)}, fine...)
	if got := c.available(all); !slices.Equal(got, fine) {
		t.Errorf("available: %v", got)
	}
}

// A host port takes over no foreign address: that of a service, a name server, or another node.
func TestAHostPortAtAnAddressThatIsNotTheHostsLeadsNobody(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() {
		run(t, "nft flush ruleset; ip link del outside; ip link del contivh0; conntrack -D -p udp --orig-port-dst 8088 2>/dev/null || true")
	})
	run(t, `ip link add outside type veth peer name world && ip address add 198.18.5.1/24 dev outside && ip link set outside up && ip link set world up
ip neighbour add 198.18.5.5 lladdr 02:00:00:00:00:05 dev outside
ip link add contivh0 type veth peer name esw && ip address add 172.19.255.254/16 dev contivh0 && ip link set contivh0 up && ip link set esw up
ip neighbour add 172.19.0.4 lladdr 02:00:00:00:00:04 dev contivh0`)
	var all []HostPort
	for _, at := range []string{"198.18.5.1", "198.18.5.5"} {
		all = append(all, HostPort{HostPort: mastercfg.HostPort{Address: netip.MustParseAddr(at), Protocol: "udp", Port: 8088, To: 80}, Number: 4, IPv4: true})
	}
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).withHostPorts(hostPorts{all, wayOut})); err != nil {
		t.Fatal(err)
	}
	for at, led := range map[string]bool{"198.18.5.1": true, "198.18.5.5": false} {
		sender, err := net.Dial("udp4", at+":8088")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = sender.Write([]byte("hello")) // whoever is there
		_ = sender.Close()
		got := run(t, "conntrack -L -p udp --orig-dst "+at+" --orig-port-dst 8088 2>/dev/null")
		if strings.Contains(got, "src=172.19.") != led || got == "" {
			t.Errorf("%s, led %v:\n%s", at, !led, got)
		}
	}
	stale := staleDatagrams{ports: hostPorts{all, wayOut}, here: []netip.Addr{netip.MustParseAddr("198.18.5.1")}}
	for at, led := range map[string]bool{"198.18.5.1:8088": true, "198.18.5.5:8088": false} {
		if _, is := stale.leads(netip.MustParseAddrPort(at)); is != led {
			t.Errorf("datagrams to %s are led: %v", at, is)
		}
	}
}

// Packets of an endpoint to an address that the host has in its network are not forwarded to another one, which
// would bypass the policies for its egress: that is the purpose of the host's address outside.
func TestWhatComesByAnInterfaceInANetworkIsNotLed(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() {
		run(t, "nft flush ruleset; ip netns del endpoint; ip link del contivh0; conntrack -D -p udp --orig-port-dst 8088 2>/dev/null; conntrack -D -p udp --orig-port-dst 30088 2>/dev/null || true")
	})
	run(t, `ip netns add endpoint
ip link add contivh1 group 194 type veth peer name eth0 netns endpoint && ip address add 198.18.6.1/24 dev contivh1 && ip link set contivh1 up
ip link add abroad type veth peer name eth1 netns endpoint && ip address add 198.18.7.1/24 dev abroad && ip link set abroad up
ip -n endpoint address add 198.18.6.2/24 dev eth0 && ip -n endpoint link set eth0 up && ip -n endpoint address add 198.18.7.2/24 dev eth1 && ip -n endpoint link set eth1 up
ip link add contivh0 type veth peer name esw && ip address add 172.19.255.254/16 dev contivh0 && ip link set contivh0 up && ip link set esw up
ip neighbour add 172.19.0.4 lladdr 02:00:00:00:00:04 dev contivh0; ip neighbour add 172.19.255.253 lladdr 02:00:00:00:00:05 dev contivh0
sysctl -qw net.ipv4.ip_forward=1`)
	all := hostPorts{[]HostPort{{HostPort: mastercfg.HostPort{Protocol: "udp", Port: 8088, To: 80}, Number: 4, IPv4: true}}, wayOut}
	in := entrances{agent.Entrances{NodePorts: []agent.NodePort{{Protocol: openflow.ProtoUDP, Port: 30088}}}, wayOut, Everywhere()}
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).with(in).withHostPorts(all)); err != nil {
		t.Fatal(err)
	}
	for at, led := range map[string]bool{"198.18.6.1": false, "198.18.7.1": true} {
		for _, port := range []string{"8088", "30088"} {
			run(t, "ip netns exec endpoint bash -c 'echo hello > /dev/udp/"+at+"/"+port+"'")
			var got string
			testkit.Eventually(t, 5*time.Second, "the kernel has seen it", func() bool {
				got = run(t, "conntrack -L -p udp --orig-dst "+at+" --orig-port-dst "+port+" 2>/dev/null")
				return got != ""
			})
			if strings.Contains(got, "src=172.19.") != led {
				t.Errorf("%s:%s, led %v:\n%s", at, port, !led, got)
			}
		}
	}
}
