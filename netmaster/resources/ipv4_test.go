package resources

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// network makes the record of a network.
func network(t testing.TB, subnet, gateway string) *mastercfg.CfgNetworkState {
	t.Helper()
	s, err := ParseSubnet(subnet)
	if err != nil {
		t.Fatal(err)
	}
	rec := &mastercfg.CfgNetworkState{ID: "web.blue"}
	if err := InitNetwork(rec, s, gateway); err != nil {
		t.Fatal(err)
	}
	return rec
}

func pool(t testing.TB, rec *mastercfg.CfgNetworkState) IPv4Pool {
	t.Helper()
	p, err := NetworkPool(rec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestSubnetsAreNormalisedAndChecked(t *testing.T) {
	for _, c := range []struct{ text, prefix, usable, cidr, refused string }{
		{"10.1.1.0/24", "10.1.1.0/24", "10.1.1.0-10.1.1.255", "10.1.1.0/24", ""},
		{"10.1.1.128/24", "10.1.1.0/24", "10.1.1.0-10.1.1.255", "10.1.1.0/24", ""},
		{"10.1.1.10-10.1.1.20/24", "10.1.1.0/24", "10.1.1.10-10.1.1.20", "10.1.1.0/27", ""},
		{"10.1.1.7-10.1.1.7/24", "10.1.1.0/24", "10.1.1.7-10.1.1.7", "10.1.1.7/32", ""},
		{"10.0.0.0/8", "10.0.0.0/8", "10.0.0.0-10.255.255.255", "10.0.0.0/8", ""},
		{"10.1.1.20-10.1.1.10/24", "", "", "", "Network subnet format not valid"},
		{"10.1.1.10-10.1.2.20/24", "", "", "", "Network subnet format not valid"},
		{"10.1.1.0", "", "", "", "Network subnet format not valid"},
		{"10.1.1.0/x", "", "", "", "Network subnet format not valid"},
		{"2001:db8::/64", "", "", "", "Network subnet format not valid"},
		{"10.0.0.0/7", "", "", "", "subnet length 7 not supported"},
		{"10.0.0.0/33", "", "", "", "subnet length 33 not supported"},
	} {
		s, err := ParseSubnet(c.text)
		if text(err) != c.refused {
			t.Errorf("%s: error %q, want %q", c.text, text(err), c.refused)
		}
		if err == nil && (s.Prefix.String() != c.prefix || s.Range() != c.usable || s.CIDR().String() != c.cidr) {
			t.Errorf("%s: got %s, %s, %s", c.text, s.Prefix, s.Range(), s.CIDR())
		}
	}
}

func TestAddressesAreHandedOutFromTheLowest(t *testing.T) {
	p := pool(t, network(t, "10.7.0.0/29", "10.7.0.2"))
	for _, want := range []string{"10.7.0.1", "10.7.0.3", "10.7.0.4", "10.7.0.5", "10.7.0.6"} {
		if got, err := p.Allocate(); err != nil || got.String() != want {
			t.Fatalf("got %s, %v, want %s", got, err, want)
		}
	}
	if _, err := p.Allocate(); text(err) != "auto allocation failed - address exhaustion in subnet 10.7.0.0/29" || !fault.Is(err, fault.Exhausted) {
		t.Fatalf("exhausted pool says %v", err)
	}
	p.Release(netip.MustParseAddr("10.7.0.4"))
	if got, err := p.Allocate(); err != nil || got.String() != "10.7.0.4" {
		t.Fatalf("after a release got %s, %v", got, err)
	}
}

func TestSmallSubnetsHaveNoMoreThanTheirHosts(t *testing.T) {
	for subnet, want := range map[string]int{"10.0.0.0/30": 2, "10.0.0.0/31": 0, "10.0.0.4/32": 0, "10.0.0.7-10.0.0.9/24": 3, "10.0.0.0-10.0.0.1/24": 1} {
		p := pool(t, network(t, subnet, ""))
		got := 0
		for ; ; got++ {
			if _, err := p.Allocate(); err != nil {
				break
			}
		}
		if got != want {
			t.Errorf("%s gave %d addresses, want %d", subnet, got, want)
		}
	}
}

func TestGatewayIsReservedEvenOutsideTheRange(t *testing.T) {
	for gateway, refused := range map[string]string{
		"10.7.0.254": "",
		"10.7.0.12":  "",
		"10.7.1.1":   "hostIP 10.7.1.1 is exceeding beyond subnet 10.7.0.0/24, hostID 257",
	} {
		s, err := ParseSubnet("10.7.0.10-10.7.0.20/24")
		if err != nil {
			t.Fatal(err)
		}
		rec := &mastercfg.CfgNetworkState{}
		if err := InitNetwork(rec, s, gateway); text(err) != refused {
			t.Errorf("gateway %s: %q, want %q", gateway, text(err), refused)
		}
		if refused != "" {
			continue
		}
		p := pool(t, rec)
		addr := netip.MustParseAddr(gateway)
		if !p.Taken(addr) || p.Release(addr) || p.Take(addr) == nil {
			t.Errorf("gateway %s can be had", gateway)
		}
	}
}

func TestListsShowRanges(t *testing.T) {
	p := pool(t, network(t, "10.7.0.0/24", "10.7.0.254"))
	for range 4 {
		if _, err := p.Allocate(); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.Allocated(); got != "10.7.0.1-10.7.0.4, 10.7.0.254" {
		t.Errorf("allocated %s", got)
	}
	if got := p.Available(); got != "10.7.0.5-10.7.0.253" {
		t.Errorf("available %s", got)
	}
}

func TestLargeSubnetsStaySmallInTheStore(t *testing.T) {
	rec := network(t, "10.0.0.0/8", "10.255.255.254")
	p := pool(t, rec)
	for range 70000 {
		if _, err := p.Allocate(); err != nil {
			t.Fatal(err)
		}
	}
	if bits := rec.IPAllocMap.Len(); bits > 1<<17 {
		t.Errorf("map has %d bits", bits)
	}
	if addr := netip.MustParseAddr("10.255.255.254"); !p.Taken(addr) {
		t.Error("the gateway is free")
	}
}

func TestTheFarEndOfALargeSubnetIsUsable(t *testing.T) {
	rec := network(t, "10.0.0.0/8", "10.255.255.253")
	before, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	p := pool(t, rec)
	last := netip.MustParseAddr("10.255.255.254")
	if err := p.Take(last); err != nil {
		t.Fatal(err)
	}
	if got, want := p.Allocated(), "10.255.255.253-10.255.255.254"; got != want {
		t.Errorf("allocated %s, want %s", got, want)
	}
	if got, want := p.Available(), "10.0.0.1-10.255.255.252"; got != want {
		t.Errorf("available %s, want %s", got, want)
	}
	stored, err := rec.Encode()
	if err != nil || len(stored) > 64<<10 {
		t.Errorf("the record has %d bytes, %v", len(stored), err)
	}
	var back mastercfg.CfgNetworkState
	if err := back.Decode(stored); err != nil || !pool(t, &back).Taken(last) {
		t.Errorf("read again: %v", err)
	}
	p.Release(last)
	if after, err := rec.Encode(); err != nil || string(after) != string(before) {
		t.Errorf("the record is not what it was: %d bytes instead of %d, %v", len(after), len(before), err)
	}
}

func TestAGroupMayHaveAllOfALargeSubnet(t *testing.T) {
	rec := network(t, "10.0.0.0/8", "10.255.255.254")
	before, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	group := &mastercfg.EndpointGroupState{ID: "front:blue"}
	if err := ReserveGroupPool(rec, group, "10.0.0.1-10.255.255.254"); text(err) != "ip address 10.255.255.254 is not available" {
		t.Errorf("with the gateway: %v", err)
	}
	if err := ReserveGroupPool(rec, group, "10.0.0.1-10.255.255.253"); err != nil {
		t.Fatal(err)
	}
	if _, err := pool(t, rec).Allocate(); err == nil {
		t.Error("the network still has an address")
	}
	if err := ReturnGroupPool(rec, group); err != nil {
		t.Fatal(err)
	}
	if after, err := rec.Encode(); err != nil || string(after) != string(before) {
		t.Errorf("the record is not what it was: %d bytes instead of %d, %v", len(after), len(before), err)
	}
}

func TestARangeMayLieAnywhereInALargeSubnet(t *testing.T) {
	p := pool(t, network(t, "10.200.0.1-10.200.0.3/8", ""))
	for _, want := range []string{"10.200.0.1", "10.200.0.2", "10.200.0.3"} {
		if got, err := p.Allocate(); err != nil || got.String() != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	if _, err := p.Allocate(); text(err) != "auto allocation failed - address exhaustion in subnet 10.0.0.0/8" {
		t.Errorf("full: %v", err)
	}
	if p.Allocated() != "10.200.0.1-10.200.0.3" || p.Available() != "" {
		t.Errorf("lists %q and %q", p.Allocated(), p.Available())
	}
}

func TestGroupPoolIsTakenOutOfItsNetwork(t *testing.T) {
	rec := network(t, "10.7.0.0/24", "10.7.0.254")
	group := &mastercfg.EndpointGroupState{ID: "front:blue"}
	if err := ReserveGroupPool(rec, group, "10.7.0.1-10.7.0.3"); err != nil {
		t.Fatal(err)
	}
	if got, err := pool(t, rec).Allocate(); err != nil || got.String() != "10.7.0.4" {
		t.Errorf("the network gave %s, %v", got, err)
	}
	p, err := GroupPool(rec, group)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"10.7.0.1", "10.7.0.2", "10.7.0.3"} {
		if got, err := p.Allocate(); err != nil || got.String() != want {
			t.Errorf("the group gave %s, %v, want %s", got, err, want)
		}
	}
	if _, err := p.Allocate(); text(err) != "auto allocation failed - address exhaustion in pool 10.7.0.1-10.7.0.3" {
		t.Errorf("exhausted pool says %v", err)
	}
	if p.Allocated() != "10.7.0.1-10.7.0.3" || p.Available() != "" {
		t.Errorf("lists %q and %q", p.Allocated(), p.Available())
	}
	if err := ReturnGroupPool(rec, group); err != nil {
		t.Fatal(err)
	}
	if got, err := pool(t, rec).Allocate(); err != nil || got.String() != "10.7.0.1" {
		t.Errorf("after the group the network gave %s, %v", got, err)
	}
}

func TestGroupPoolsAreChecked(t *testing.T) {
	rec := network(t, "10.7.0.0/24", "10.7.0.254")
	taken, err := pool(t, rec).Allocate()
	if err != nil || taken.String() != "10.7.0.1" {
		t.Fatal(taken, err)
	}
	for ipPool, want := range map[string]string{
		"10.7.0.9-10.7.0.5":     "invalid ip-pool 10.7.0.9-10.7.0.5",
		"10.7.0.9-":             "invalid ip-pool 10.7.0.9-",
		"10.8.0.1-10.8.0.5":     "bad ip-pool 10.8.0.1-10.8.0.5, EPG ip-pool must be a subset of network 10.7.0.0/24",
		"10.7.0.250-10.7.1.5":   "bad ip-pool 10.7.0.250-10.7.1.5, EPG ip-pool must be a subset of network 10.7.0.0/24",
		"10.7.0.1-10.7.0.5":     "ip address 10.7.0.1 is not available",
		"10.7.0.250-10.7.0.254": "ip address 10.7.0.254 is not available",
		"10.7.0.7":              "",
	} {
		before := rec.IPAllocMap.Clone()
		err := ReserveGroupPool(rec, &mastercfg.EndpointGroupState{}, ipPool)
		if text(err) != want {
			t.Errorf("%s: %q, want %q", ipPool, text(err), want)
		}
		if err != nil && !before.Equal(&rec.IPAllocMap.BitSet) {
			t.Errorf("%s: refused, and the map changed", ipPool)
		}
	}
}

// A pool behaves like a set of addresses.
func TestIPv4PoolAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(24, 30).Draw(t, "length")
		subnet, err := ParseSubnet(netip.PrefixFrom(netip.MustParseAddr("10.7.0.0"), length).String())
		if err != nil {
			t.Fatal(err)
		}
		rec := &mastercfg.CfgNetworkState{}
		if err := InitNetwork(rec, subnet, "10.7.0.1"); err != nil {
			t.Fatal(err)
		}
		usable := 1<<(32-length) - 3 // without subnet, broadcast and gateway address
		have := map[netip.Addr]bool{}
		anyAddr := rapid.Custom(func(t *rapid.T) netip.Addr {
			return toIPv4(fromIPv4(subnet.First) + rapid.Uint32Range(2, uint32(usable)+1).Draw(t, "offset"))
		})
		fresh := func() IPv4Pool { // as the next request sees it: decoded from the store
			data, err := rec.Encode()
			if err != nil {
				t.Fatal(err)
			}
			rec = &mastercfg.CfgNetworkState{}
			if err := rec.Decode(data); err != nil {
				t.Fatal(err)
			}
			p, err := NetworkPool(rec)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				addr, err := fresh().Allocate()
				if (err != nil) != (len(have) == usable) || have[addr] {
					t.Fatalf("got %s, %v with %d of %d taken", addr, err, len(have), usable)
				}
				if err == nil {
					have[addr] = true
				}
			},
			"take": func(t *rapid.T) {
				addr := anyAddr.Draw(t, "addr")
				if err := fresh().Take(addr); err != nil {
					t.Fatal(err)
				}
				have[addr] = true
			},
			"release": func(t *rapid.T) {
				addr := anyAddr.Draw(t, "addr")
				if fresh().Release(addr) != have[addr] {
					t.Fatalf("release of %s, taken %v", addr, have[addr])
				}
				delete(have, addr)
			},
			"": func(t *rapid.T) {
				marked := 0
				fresh().Marked(func(addr netip.Addr) {
					marked++
					if !have[addr] {
						t.Fatalf("%s is marked", addr)
					}
				})
				if marked != len(have) {
					t.Fatalf("%d marked, %d taken", marked, len(have))
				}
			},
		})
	})
}
