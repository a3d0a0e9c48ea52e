package resources

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// endpoints are the addresses that endpoints have.
type endpoints map[netip.Addr]bool

func (e endpoints) has(addr netip.Addr) bool { return e[addr] }

func poolIPv6(t testing.TB, subnet, gateway string) (IPv6Pool, endpoints) {
	t.Helper()
	have := endpoints{}
	rec := &mastercfg.CfgNetworkState{ID: "web.blue"}
	if err := InitNetworkIPv6(rec, subnet, gateway); err != nil {
		t.Fatal(err)
	}
	p, err := NetworkPoolIPv6(rec, have.has)
	if err != nil {
		t.Fatal(err)
	}
	return p, have
}

func TestIPv6CountsOnAndWrapsRound(t *testing.T) {
	p, have := poolIPv6(t, "2001:db8::/126", "2001:db8::2")
	allocate := func(want string) {
		t.Helper()
		got, err := p.Allocate()
		if err != nil || got.String() != want {
			t.Fatalf("got %s, %v, want %s", got, err, want)
		}
		have[got] = true
	}
	allocate("2001:db8::1")
	allocate("2001:db8::3")
	if _, err := p.Allocate(); !fault.Is(err, fault.Exhausted) || text(err) != "Reached MaxHosts (3), no address left in ipv6 subnet 2001:db8::/126" {
		t.Fatalf("exhausted pool says %v", err)
	}
	delete(have, netip.MustParseAddr("2001:db8::1"))
	allocate("2001:db8::1")
}

func TestIPv6OfAnyLengthHandsOutEveryHostOnce(t *testing.T) {
	for _, prefix := range []string{"2001:db8::/120", "2001:db8::/121", "fd00::ff00/123", "::1:0/127"} {
		p, have := poolIPv6(t, prefix, "")
		subnet := netip.MustParsePrefix(prefix)
		seen := map[netip.Addr]bool{}
		for {
			addr, err := p.Allocate()
			if err != nil {
				break
			}
			if seen[addr] || !subnet.Contains(addr) {
				t.Fatalf("%s: %s is outside or given twice", prefix, addr)
			}
			seen[addr] = true
			if len(seen)%2 == 0 { // a free address is neither held nor an endpoint's
				have[addr] = true
			} else {
				p.Hold(addr)
			}
		}
		if want := 1<<(128-subnet.Bits()) - 1; len(seen) != want {
			t.Errorf("%s gave %d addresses, want %d", prefix, len(seen), want)
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
	if _, err := NetworkPoolIPv6(&mastercfg.CfgNetworkState{ID: "n.t"}, nil); text(err) != "subnet length 0 is invalid: network n.t has no ipv6 subnet" {
		t.Errorf("network without IPv6: %v", err)
	}
}

// However addresses are held, given to endpoints and given back: none is given
// twice, and what is free can be had.
func TestIPv6PoolAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(118, 127).Draw(t, "length")
		prefix := netip.PrefixFrom(netip.MustParseAddr("2001:db8::"), length)
		rec := &mastercfg.CfgNetworkState{}
		if err := InitNetworkIPv6(rec, prefix.String(), "2001:db8::1"); err != nil {
			t.Fatal(err)
		}
		have, held := endpoints{}, map[netip.Addr]bool{}
		p, err := NetworkPoolIPv6(rec, have.has)
		if err != nil {
			t.Fatal(err)
		}
		most := 1<<(128-length) - 2 // without the gateway
		anyAddr := func(t *rapid.T) netip.Addr {
			if most == 0 {
				t.Skip("no host beside the gateway")
			}
			return uint128{fromIPv6(prefix.Addr()).hi, uint64(rapid.IntRange(2, most+1).Draw(t, "host"))}.addr()
		}
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				addr, err := p.Allocate()
				if (err != nil) != (len(have)+len(held) == most) || have[addr] || held[addr] {
					t.Fatalf("got %s, %v with %d of %d taken", addr, err, len(have)+len(held), most)
				}
				if err != nil {
					return
				}
				if rapid.Bool().Draw(t, "hold") {
					p.Hold(addr)
					held[addr] = true
				} else {
					have[addr] = true
				}
			},
			"take": func(t *rapid.T) {
				addr := anyAddr(t)
				if p.Held(addr) != held[addr] || (p.Take(addr) != nil) != have[addr] {
					t.Fatalf("take of %s, held before %v, taken %v", addr, held[addr], have[addr])
				}
				have[addr] = true
				delete(held, addr)
			},
			"release": func(t *rapid.T) {
				addr := anyAddr(t)
				if p.Release(addr) != held[addr] {
					t.Fatalf("release of %s, held %v", addr, held[addr])
				}
				delete(held, addr)
			},
			"end of an endpoint": func(t *rapid.T) { delete(have, anyAddr(t)) },
		})
	})
}
