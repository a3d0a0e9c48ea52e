package resources

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// ipv6Network is a network whose allocations are kept.
type ipv6Network struct {
	testing.TB
	rec  *mastercfg.CfgNetworkState
	used addressSet
	last string
}

func newIPv6(t testing.TB, subnet, gateway string) *ipv6Network {
	t.Helper()
	n := &ipv6Network{t, &mastercfg.CfgNetworkState{ID: "web.blue"}, addressSet{}, ""}
	if err := InitNetworkIPv6(n.rec, subnet, gateway); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *ipv6Network) pool() IPv6Pool {
	n.Helper()
	p, err := NetworkPoolIPv6(n.rec, n.used, n.last)
	if err != nil {
		n.Fatal(err)
	}
	return p
}

func (n *ipv6Network) take() (netip.Addr, error) {
	n.Helper()
	p := n.pool()
	addr, err := p.Next()
	if err == nil {
		n.used[addr], n.last = true, p.HostPart(addr)
	}
	return addr, err
}

func TestIPv6CountsOnAndWrapsRound(t *testing.T) {
	n := newIPv6(t, "2001:db8::/126", "2001:db8::2")
	allocate := func(want string) {
		t.Helper()
		if got, err := n.take(); err != nil || got.String() != want {
			t.Fatalf("got %s, %v, want %s", got, err, want)
		}
	}
	allocate("2001:db8::1")
	allocate("2001:db8::3")
	if _, err := n.take(); !fault.Is(err, fault.Exhausted) || text(err) != "Reached MaxHosts (3), no address left in ipv6 subnet 2001:db8::/126" {
		t.Fatalf("exhausted pool says %v", err)
	}
	delete(n.used, netip.MustParseAddr("2001:db8::1"))
	allocate("2001:db8::1")
	delete(n.used, netip.MustParseAddr("2001:db8::1"))
	delete(n.used, netip.MustParseAddr("2001:db8::3"))
	allocate("2001:db8::3") // the one just freed comes last
}

func TestIPv6OfAnyLengthHandsOutEveryHostOnce(t *testing.T) {
	for _, prefix := range []string{"2001:db8::/120", "2001:db8::/121", "fd00::ff00/123", "::1:0/127", "fd00::1/128", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/124"} {
		n := newIPv6(t, prefix, "")
		subnet := netip.MustParsePrefix(prefix).Masked()
		for {
			addr, err := n.take()
			if err != nil {
				break
			}
			if !subnet.Contains(addr) || addr == subnet.Addr() {
				t.Fatalf("%s: %s must not be handed out", prefix, addr)
			}
		}
		if want := 1<<(128-subnet.Bits()) - 1; len(n.used) != want {
			t.Errorf("%s gave %d addresses, want %d", prefix, len(n.used), want)
		}
	}
}

func TestIPv6SubnetsAndGatewaysAreChecked(t *testing.T) {
	for _, c := range []struct{ subnet, gateway, want string }{
		{"2001:db8::/64", "2001:db8::1", ""},
		{"", "", ""},
		{"", "2001:db8::1", "ipv6 gateway 2001:db8::1 given without an ipv6 subnet"},
		{"2001:db8::/64", "2001:db9::1", "ipv6 gateway 2001:db9::1 is not in subnet 2001:db8::/64"},
		{"2001:db8::/15", "", "subnet length 15 not supported"},
		{"1:/64", "", "ipv6 subnet 1:/64 is not valid"},
		{"10.0.0.0/24", "", "ipv6 subnet 10.0.0.0/24 is not valid"},
	} {
		if err := InitNetworkIPv6(&mastercfg.CfgNetworkState{}, c.subnet, c.gateway); text(err) != c.want {
			t.Errorf("%+v: %q", c, text(err))
		}
	}
	if _, err := NetworkPoolIPv6(&mastercfg.CfgNetworkState{ID: "n.t"}, nil, ""); text(err) != "subnet length 0 is invalid: network n.t has no ipv6 subnet" {
		t.Errorf("network without IPv6: %v", err)
	}
}

func TestIPv6AddressesAskedForAreChecked(t *testing.T) {
	p := newIPv6(t, "2001:db8::/64", "2001:db8::1").pool()
	for addr, want := range map[string]string{
		"2001:db8::7": "",
		"2001:db8::":  "requested ipv6 address 2001:db8:: is not available in subnet 2001:db8::/64",
		"2001:db8::1": "requested ipv6 address 2001:db8::1 is not available in subnet 2001:db8::/64",
		"2001:db9::7": "ipv6 address 2001:db9::7 is not in subnet 2001:db8::/64",
		"10.0.0.1":    "ipv6 address 10.0.0.1 is not in subnet 2001:db8::/64",
	} {
		if err := p.Check(netip.MustParseAddr(addr)); text(err) != want {
			t.Errorf("%s: %q, want %q", addr, text(err), want)
		}
	}
}

// After any allocations and releases: no address is assigned twice, and free ones are available.
func TestIPv6PoolAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		length := rapid.IntRange(118, 127).Draw(rt, "length")
		prefix := netip.PrefixFrom(netip.MustParseAddr("2001:db8::"), length)
		n := newIPv6(t, prefix.String(), "2001:db8::1")
		most := 1<<(128-length) - 2 // without the gateway
		rt.Repeat(map[string]func(*rapid.T){
			"allocate": func(rt *rapid.T) {
				before := len(n.used)
				addr, err := n.take()
				if (err != nil) != (before == most) || err == nil && len(n.used) != before+1 {
					rt.Fatalf("got %s, %v with %d of %d taken", addr, err, before, most)
				}
			},
			"give back": func(rt *rapid.T) {
				for addr := range n.used {
					delete(n.used, addr)
					return
				}
			},
		})
	})
}
