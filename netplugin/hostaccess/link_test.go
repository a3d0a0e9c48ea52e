package hostaccess

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestMain(m *testing.M) { os.Exit(fakenode.Isolate(m)) }

func run(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// pair makes the link of a port and returns the interface that it should become.
func pair(t *testing.T) (drivers.Port, wantedLink) {
	testkit.NeedsMachine(t)
	run(t, "ip link add vvport7 type veth peer name vport7 && ip link set vvport7 up")
	t.Cleanup(func() { run(t, "ip link del vvport7") })
	a := func(text string) netip.Addr { return netip.MustParseAddr(text) }
	return drivers.Port{HostLink: "vvport7", PodLink: "vport7"}, wantedLink{
		name: "contivh1", group: infraGroup, mac: net.HardwareAddr{2, 2, 10, 9, 0, 1}, mtu: 1450,
		addresses: []netip.Prefix{netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd00:9::2/64")},
		routes: []wantedRoute{
			{to: netip.MustParsePrefix("10.1.1.0/24"), via: a("10.9.0.254"), src: a("10.9.0.1")},
			{to: netip.MustParsePrefix("fd00:1::/64"), via: a("fd00:9::1"), src: a("fd00:9::2")},
		},
		checksumInSoftware: true, forwards: true,
	}
}

// ensured expects the wanted interface, and that a second call changes nothing.
func ensured(t *testing.T, port drivers.Port, want wantedLink, why string) {
	t.Helper()
	changed, err := want.ensure(port, new(own))
	if !changed || err != nil {
		t.Fatalf("%s: changed %v, %v", why, changed, err)
	}
	if changed, err := want.ensure(port, new(own)); changed || err != nil {
		t.Errorf("%s: looked at again: changed %v, %v", why, changed, err)
	}
	got := run(t, "ip -d address show contivh1; ip route show dev contivh1; ip -6 route show dev contivh1; ethtool -k contivh1; sysctl net.ipv4.conf.contivh1.forwarding")
	for _, part := range []string{"mtu 1450", "link/ether 02:02:0a:09:00:01", "inet 10.9.0.1/24", "inet6 fd00:9::2/64", "LOWER_UP", "group 194",
		"10.1.1.0/24 via 10.9.0.254 proto 168 src 10.9.0.1", "fd00:1::/64 via fd00:9::1 proto 168 src fd00:9::2", "tx-checksum-ip-generic: off", "contivh1.forwarding = 1"} {
		if !strings.Contains(got, part) {
			t.Errorf("%s: %q is missing:\n%s", why, part, got)
		}
	}
}

func TestTheInterfaceIsMadeAndSetRight(t *testing.T) {
	port, want := pair(t)
	run(t, "sysctl -qw net.ipv4.conf.default.forwarding=0") // as an interface of a host begins that routes by some of its own only
	t.Cleanup(func() { run(t, "sysctl -qw net.ipv4.conf.default.forwarding=1") })
	ensured(t, port, want, "at first")
	for _, change := range []string{
		"ip link set contivh1 mtu 1400", "ip link set contivh1 address 02:02:02:02:02:02", "ip link set contivh1 down",
		"ip addr flush dev contivh1", "ip addr add 10.9.0.77/24 dev contivh1", "ip route del 10.1.1.0/24",
		"ip route add 10.7.7.0/24 via 10.9.0.254 proto 168", "ip -6 route del fd00:1::/64", "ethtool -K contivh1 tx on",
		"sysctl -qw net.ipv4.conf.contivh1.forwarding=0",
	} {
		run(t, change)
		ensured(t, port, want, change)
	}
	if got := run(t, "ip addr show contivh1; ip route show"); strings.Contains(got, "10.9.0.77") || strings.Contains(got, "10.7.7.0") {
		t.Errorf("what is not wanted is still there:\n%s", got)
	}
}

func TestWhatIsNotOursStays(t *testing.T) {
	port, want := pair(t)
	run(t, "ip link add contivh1 type bridge")
	if _, err := want.ensure(port, new(own)); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "contivh1") {
		t.Errorf("an interface of the name: %v", err)
	}
	run(t, "ip link del contivh1; ip link add other type bridge; ip addr add 10.8.0.1/24 dev other; ip link set other up; ip route add 10.1.1.0/24 via 10.8.0.9")
	t.Cleanup(func() { run(t, "ip link del other") })
	if _, err := want.ensure(port, new(own)); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "10.1.1.0/24") {
		t.Errorf("a route of somebody else: %v", err)
	}
	if got := run(t, "ip route show; ip -6 route show"); !strings.Contains(got, "10.1.1.0/24 via 10.8.0.9") || !strings.Contains(got, "fd00:1::/64") {
		t.Errorf("the other route, or ours that has nothing to do with it:\n%s", got)
	}
}

// Routes to machines of the cluster, and to networks on other links, stay the host's, also if a route of ours led
// there before.
func TestNetworksTakeNothingFromTheHostThatItReachesByOthers(t *testing.T) {
	port, want := pair(t)
	run(t, "ip link add other type bridge; ip addr add 192.0.2.1/24 dev other; ip -6 addr add fd00:7::1/64 dev other nodad; ip link set other up; ip route add default via 192.0.2.254; ip route add 203.0.113.0/26 via 192.0.2.9")
	t.Cleanup(func() { run(t, "ip link del other") })
	machines := []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("203.0.113.2")}
	ensured(t, port, want, "nothing of the host's is in them")
	gateway, own4 := netip.MustParseAddr("10.9.0.254"), netip.MustParseAddr("10.9.0.1")
	gateway6, own6 := netip.MustParseAddr("fd00:9::1"), netip.MustParseAddr("fd00:9::2")
	for to, why := range map[string]string{
		"192.0.2.0/30":    "interface other, with address 192.0.2.1/24", // more specific, without the host's own address in the end
		"192.0.2.128/25":  "interface other, with address 192.0.2.1/24",
		"192.0.2.0/24":    "interface other, with address 192.0.2.1/24",     // as specific
		"192.0.0.0/16":    "",                                               // what is on the link has the longer prefix
		"198.51.100.0/24": "198.51.100.2 in it is a machine of the cluster", // by the default route
		"203.0.113.0/24":  "",                                               // by a more specific one
		"203.0.113.0/27":  "203.0.113.2 in it is a machine of the cluster",
		"10.2.2.0/24":     "",
		"fd00:7::/80":     "interface other, with address fd00:7::1/64",
		"fd00:2::/64":     "",
	} {
		subnet, w := netip.MustParsePrefix(to), want
		add := wantedRoute{to: subnet, via: gateway, src: own4}
		if subnet.Addr().Is6() {
			add.via, add.src = gateway6, own6
		}
		w.routes = append(slices.Clone(want.routes), add)
		for _, before := range []bool{false, true} {
			if before && why != "" { // made by an agent of before
				if _, err := w.ensure(port, new(own)); err != nil && !fault.Is(err, fault.Conflict) {
					t.Fatal(err)
				}
			}
			spared, err := w.spared(machines)
			if why == "" && err != nil || why != "" && (!fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), why)) {
				t.Errorf("%s: %v, want %q", to, err, why)
			}
			if _, err := spared.ensure(port, new(own)); err != nil {
				t.Errorf("%s: %v", to, err)
			}
			got := run(t, "ip route show proto 168; ip -6 route show proto 168")
			if strings.Contains(got, to+" ") != (why == "") || !strings.Contains(got, "10.1.1.0/24 ") || !strings.Contains(got, "fd00:1::/64 ") {
				t.Errorf("%s: %q:\n%s", to, why, got)
			}
		}
	}
}

// Nor do routes to infra networks themselves. An address that the host has there stays.
func TestTheHostIsInNoInfraNetworkThatTakesWhatItReaches(t *testing.T) {
	port, want := pair(t)
	run(t, "ip link add other type bridge; ip addr add 10.9.0.77/16 dev other; ip link set other up")
	t.Cleanup(func() { run(t, "ip link del other") })
	if _, err := want.spared(nil); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "address 10.9.0.1/24: the host is in it by interface other, with address 10.9.0.77/16") {
		t.Errorf("part of what is on another link: %v", err)
	}
	ensured(t, port, want, "by an agent of before")
	if w, err := want.spared(nil); err != nil || len(w.addresses) != 2 || len(w.routes) != 2 {
		t.Errorf("the host is in it already: %v, %v", w, err)
	}
}

func TestNamesOfInterfaces(t *testing.T) {
	for name, fits := range map[string]bool{"contivh1": true, "contivVxGW": true, "fifteen-letters": true, "sixteen--letters": false, "a/b": false, "..": false, "contivh0": false, "inb01": false} {
		if err := checkName(name, outsideLink, "inb01"); (err == nil) != fits {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAKernelWithoutIPv6HasTheRestOfAnInterface(t *testing.T) {
	w := outsideInterface(wayOut)
	for _, p := range []string{"10.1.0.0/16", "fd00:1::/64"} {
		w.routes = append(w.routes, wantedRoute{to: netip.MustParsePrefix(p)})
	}
	got := w.withoutIPv6()
	if len(got.addresses) != 1 || !got.addresses[0].Addr().Is4() || len(got.routes) != 1 || !got.routes[0].to.Addr().Is4() {
		t.Errorf("addresses %v, routes %v", got.addresses, got.routes)
	}
	if len(w.addresses) != 2 || len(w.routes) != 2 {
		t.Errorf("what is wanted has changed: %v, %v", w.addresses, w.routes)
	}
}

// The link-local address is announced to routers. It exists whatever the machine's settings for new links, and so
// does what keeps routers' advertisements from the host.
func TestAnInterfaceHasTheLinkLocalAddressThatOthersAreTold(t *testing.T) {
	testkit.NeedsMachine(t)
	for _, setting := range []string{"addr_gen_mode", "disable_ipv6"} {
		t.Run(setting, func(t *testing.T) {
			before := strings.TrimSpace(run(t, "cat /proc/sys/net/ipv6/conf/default/"+setting))
			run(t, "sysctl -qw net.ipv6.conf.default."+setting+"=1")
			port, _ := pair(t)
			run(t, "sysctl -qw net.ipv6.conf.default."+setting+"="+before)
			inb01 := Interface{Name: "inb01", MAC: net.HardwareAddr{2, 2, 10, 9, 0, 1}, Addresses: []netip.Prefix{
				netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fe80::2:aff:fe09:1/64")}}
			for _, wanted := range []bool{true, false} {
				if changed, err := inb01.Ensure(port); changed != wanted || err != nil {
					t.Errorf("changed %v, %v", changed, err)
				}
			}
			if got := run(t, "ip address show dev inb01; cat /proc/sys/net/ipv6/conf/inb01/accept_ra"); !strings.Contains(got, "inet6 fe80::2:aff:fe09:1/64") || !strings.HasSuffix(got, "\n0\n") {
				t.Error(got)
			}
		})
	}
}
