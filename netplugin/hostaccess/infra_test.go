package hostaccess

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/netspace"
)

// Connections of an endpoint do not reach control ports by an infra network; those of the host from such a port
// are answered.
func TestInfraNetworksLeadToNoControlPort(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset; ip link del contivh1; ip netns del pod-infra") })
	run(t, `ip netns add pod-infra
ip link add contivh1 type veth peer name eth0 netns pod-infra
ip link set contivh1 group 194 up && ip address add 198.18.9.1/24 dev contivh1
ip -n pod-infra link set eth0 up && ip -n pod-infra address add 198.18.9.2/24 dev eth0`)
	pod, err := netns.GetFromName("pod-infra")
	if err != nil {
		t.Fatal(err)
	}
	defer pod.Close()
	control, other := listens(t), listens(t)
	const ofOthers = 20379 // members of the store listen there on other machines, but not here
	guarded := Closed{VXLANPort: 4789, Ports: []uint16{control.Port(), ofOthers}}
	var r rules
	if err := r.apply(t.Context(), tableForInfra(guarded, 2000)); err != nil {
		t.Fatal(err)
	}
	for to, open := range map[netip.AddrPort]bool{control: false, other: true} {
		var c net.Conn
		err := netspace.In(&pod, func() (err error) {
			c, err = net.DialTimeout("tcp", to.String(), time.Second)
			return err
		})
		if err == nil {
			_ = c.Close()
		}
		if (err == nil) != open {
			t.Errorf("an endpoint reaches port %d: %v, want %v", to.Port(), err == nil, open)
		}
	}
	var server net.Listener
	if err := netspace.In(&pod, func() (err error) {
		server, err = net.Listen("tcp", "198.18.9.2:0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	from := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(198, 18, 9, 1), Port: ofOthers}}
	c, err := from.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatalf("the host is not answered at a port that others of the cluster listen at: %v", err)
	}
	_ = c.Close()
}

// A bridged infra network brings the host the packets that a pod sends to its MAC address, whatever their
// destination. The host forwards them to other machines, but not to ports of tunnels and of the control plane.
func TestInfraNetworksLeadToNoControlPortOfAnotherMachine(t *testing.T) {
	testkit.NeedsMachine(t)
	world := fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "nft flush ruleset; ip link del contivh1; ip link del world; ip netns del pod-infra") })
	run(t, "set -- "+world+`
ip netns add pod-infra
ip link add contivh1 type veth peer name eth0 netns pod-infra
ip link set contivh1 group 194 up && ip address add 198.18.9.1/24 dev contivh1
ip -n pod-infra link set eth0 up && ip -n pod-infra address add 198.18.9.2/24 dev eth0 && ip -n pod-infra route add default via 198.18.9.1
ip link add world type veth peer name eth0 netns "$1"; ip link set world up; ip address add 203.0.113.1/24 dev world
nsenter --net="$1" sh -ec 'ip link set eth0 up; ip address add 203.0.113.2/24 dev eth0; ip route add default via 203.0.113.1'
sysctl -qw net.ipv4.ip_forward=1
nft add table inet seen; nft add chain inet seen there "{ type filter hook forward priority 300; }"
for port in 4789 9999 9998; do nft add rule inet seen there iifname contivh1 th dport $port counter; done`)
	pod, err := netns.GetFromName("pod-infra")
	if err != nil {
		t.Fatal(err)
	}
	defer pod.Close()
	guarded := Closed{VXLANPort: 4789, Ports: []uint16{9999}, Nodes: []netip.Addr{netip.MustParseAddr("203.0.113.2")}}
	for name, table := range map[string]table{"no way out": tableForInfra(guarded, 2000), "a way out": tableFor(wayOut, guarded, "inb01", 2000)} {
		var r rules
		if err := r.apply(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		for _, to := range []struct{ network, port string }{{"udp", "4789"}, {"tcp", "9999"}, {"tcp", "9998"}} {
			err := netspace.In(&pod, func() error {
				c, err := net.DialTimeout(to.network, "203.0.113.2:"+to.port, 300*time.Millisecond)
				if err == nil {
					_, err = c.Write([]byte("hello"))
					_ = c.Close()
				}
				return err
			})
			if refused := errors.Is(err, unix.ECONNREFUSED); refused != (to.port == "9998") {
				t.Errorf("%s: %s port %s of another machine: %v", name, to.network, to.port, err)
			}
		}
		if got := run(t, "nft list chain inet seen there"); strings.Count(got, "packets 0 ") != 2 {
			t.Errorf("%s: to another machine goes\n%s", name, got)
		}
	}
}

// listens serves at a port of the host's address in the infra network.
func listens(t *testing.T) netip.AddrPort {
	t.Helper()
	server, err := net.Listen("tcp", "198.18.9.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return netip.MustParseAddrPort(server.Addr().String()) // the kernel accepts for us
}
