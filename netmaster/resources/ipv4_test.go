package resources

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// network makes the record of a network.
func network(t testing.TB, subnet, gateway string) *mastercfg.CfgNetworkState {
	t.Helper()
	rec := &mastercfg.CfgNetworkState{ID: "web.blue"}
	if err := InitNetwork(rec, subnet, gateway); err != nil {
		t.Fatal(err)
	}
	return rec
}

// home is a network in which addresses are taken.
type home struct {
	IPv4Pool
	used addressSet
}

func pool(t testing.TB, rec *mastercfg.CfgNetworkState, ranges ...string) home {
	t.Helper()
	used := addressSet{}
	p, err := NetworkPool(rec, used, rangeList(ranges))
	if err != nil {
		t.Fatal(err)
	}
	return home{p, used}
}

func groupPool(t testing.TB, rec *mastercfg.CfgNetworkState, ipPool string) home {
	t.Helper()
	used := addressSet{}
	p, err := GroupPool(rec, &mastercfg.EndpointGroupState{ID: "front:blue", IPPool: ipPool}, used)
	if err != nil {
		t.Fatal(err)
	}
	return home{p, used}
}

// take takes the lowest free address.
func (h home) take() (netip.Addr, error) {
	addr, err := h.Lowest()
	if err == nil {
		h.used[addr] = true
	}
	return addr, err
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
		if got, err := p.take(); err != nil || got.String() != want {
			t.Fatalf("got %s, %v, want %s", got, err, want)
		}
	}
	if _, err := p.take(); text(err) != "auto allocation failed - address exhaustion in subnet 10.7.0.0/29" || !fault.Is(err, fault.Exhausted) {
		t.Fatalf("exhausted pool says %v", err)
	}
	delete(p.used, netip.MustParseAddr("10.7.0.4"))
	if got, err := p.take(); err != nil || got.String() != "10.7.0.4" {
		t.Fatalf("after a release got %s, %v", got, err)
	}
}

func TestSmallSubnetsHaveNoMoreThanTheirHosts(t *testing.T) {
	for subnet, want := range map[string]int{"10.0.0.0/30": 2, "10.0.0.0/31": 0, "10.0.0.4/32": 0, "10.0.0.7-10.0.0.9/24": 3, "10.0.0.0-10.0.0.1/24": 1} {
		p := pool(t, network(t, subnet, ""))
		got := 0
		for ; ; got++ {
			if _, err := p.take(); err != nil {
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
		"10.7.0.255": "gateway 10.7.0.255 is the broadcast address of subnet 10.7.0.0/24, to which no host has a route",
	} {
		rec := &mastercfg.CfgNetworkState{}
		if err := InitNetwork(rec, "10.7.0.10-10.7.0.20/24", gateway); text(err) != refused {
			t.Errorf("gateway %s: %q, want %q", gateway, text(err), refused)
		}
		if refused != "" {
			continue
		}
		p := pool(t, rec)
		addr := netip.MustParseAddr(gateway)
		if !p.Taken(addr) || p.Check(addr) == nil {
			t.Errorf("gateway %s can be had", gateway)
		}
	}
}

func TestListsShowRanges(t *testing.T) {
	p := pool(t, network(t, "10.7.0.0/24", "10.7.0.254"))
	for range 4 {
		if _, err := p.take(); err != nil {
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

func TestTheFarEndOfALargeSubnetIsUsable(t *testing.T) {
	p := pool(t, network(t, "10.0.0.0/8", "10.255.255.253"))
	last := netip.MustParseAddr("10.255.255.254")
	if err := p.Check(last); err != nil {
		t.Fatal(err)
	}
	p.used[last] = true
	if got, want := p.Allocated(), "10.255.255.253-10.255.255.254"; got != want {
		t.Errorf("allocated %s, want %s", got, want)
	}
	if got, want := p.Available(), "10.0.0.1-10.255.255.252"; got != want {
		t.Errorf("available %s, want %s", got, want)
	}
}

func TestAGroupMayHaveAllOfALargeSubnet(t *testing.T) {
	rec := network(t, "10.0.0.0/8", "10.255.255.254")
	group := &mastercfg.EndpointGroupState{ID: "front:blue"}
	if err := ReserveGroupPool(pool(t, rec).IPv4Pool, group, "10.0.0.1-10.255.255.254"); text(err) != "ip address 10.255.255.254 is not available" {
		t.Errorf("with the gateway: %v", err)
	}
	if err := ReserveGroupPool(pool(t, rec).IPv4Pool, group, "10.0.0.1-10.255.255.253"); err != nil {
		t.Fatal(err)
	}
	if _, err := pool(t, rec, group.IPPool).take(); err == nil {
		t.Error("the network still has an address")
	}
}

func TestARangeMayLieAnywhereInALargeSubnet(t *testing.T) {
	p := pool(t, network(t, "10.200.0.1-10.200.0.3/8", ""))
	for _, want := range []string{"10.200.0.1", "10.200.0.2", "10.200.0.3"} {
		if got, err := p.take(); err != nil || got.String() != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	if _, err := p.take(); text(err) != "auto allocation failed - address exhaustion in subnet 10.0.0.0/8" {
		t.Errorf("full: %v", err)
	}
	if p.Allocated() != "10.200.0.1-10.200.0.3" || p.Available() != "" {
		t.Errorf("lists %q and %q", p.Allocated(), p.Available())
	}
}

func TestGroupPoolIsTakenOutOfItsNetwork(t *testing.T) {
	rec := network(t, "10.7.0.0/24", "10.7.0.254")
	net := pool(t, rec, "10.7.0.1-10.7.0.3", "10.7.0.5-10.7.0.9", "10.7.0.10")
	for _, want := range []string{"10.7.0.4", "10.7.0.11"} {
		if got, err := net.take(); err != nil || got.String() != want {
			t.Errorf("the network gave %s, %v, want %s", got, err, want)
		}
	}
	if net.Allocated() != "10.7.0.1-10.7.0.11, 10.7.0.254" || net.Available() != "10.7.0.12-10.7.0.253" {
		t.Errorf("lists %q and %q", net.Allocated(), net.Available())
	}
	p := groupPool(t, rec, "10.7.0.1-10.7.0.3")
	for _, want := range []string{"10.7.0.1", "10.7.0.2", "10.7.0.3"} {
		if got, err := p.take(); err != nil || got.String() != want {
			t.Errorf("the group gave %s, %v, want %s", got, err, want)
		}
	}
	if _, err := p.take(); text(err) != "auto allocation failed - address exhaustion in pool 10.7.0.1-10.7.0.3" {
		t.Errorf("exhausted pool says %v", err)
	}
	if p.Allocated() != "10.7.0.1-10.7.0.3" || p.Available() != "" {
		t.Errorf("lists %q and %q", p.Allocated(), p.Available())
	}
}

func TestGroupPoolsAreChecked(t *testing.T) {
	rec := network(t, "10.7.0.0/24", "10.7.0.254")
	net := pool(t, rec, "10.7.0.20-10.7.0.29")
	net.used[netip.MustParseAddr("10.7.0.1")] = true
	for ipPool, want := range map[string]string{
		"10.7.0.9-10.7.0.5":     "invalid ip-pool 10.7.0.9-10.7.0.5",
		"10.7.0.9-":             "invalid ip-pool 10.7.0.9-",
		"10.8.0.1-10.8.0.5":     "bad ip-pool 10.8.0.1-10.8.0.5, EPG ip-pool must be a subset of network 10.7.0.0/24",
		"10.7.0.250-10.7.1.5":   "bad ip-pool 10.7.0.250-10.7.1.5, EPG ip-pool must be a subset of network 10.7.0.0/24",
		"10.7.0.1-10.7.0.5":     "ip address 10.7.0.1 is not available",
		"10.7.0.250-10.7.0.254": "ip address 10.7.0.254 is not available",
		"10.7.0.0-10.7.0.5":     "ip address 10.7.0.0 is not available",
		"10.7.0.15-10.7.0.20":   "ip address 10.7.0.20 is not available",
		"10.7.0.25-10.7.0.35":   "ip address 10.7.0.25 is not available",
		"10.7.0.7":              "",
		"10.7.0.30-10.7.0.253":  "",
	} {
		group := &mastercfg.EndpointGroupState{}
		err := ReserveGroupPool(net.IPv4Pool, group, ipPool)
		if text(err) != want {
			t.Errorf("%s: %q, want %q", ipPool, text(err), want)
		}
		if (group.IPPool == "") != (want != "") {
			t.Errorf("%s: the group got %q", ipPool, group.IPPool)
		}
	}
}

// A pool hands out each of its addresses once, the lowest first, and its lists
// are what a scan finds.
func TestIPv4PoolAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		length := rapid.IntRange(24, 31).Draw(rt, "length")
		prefix := netip.PrefixFrom(netip.MustParseAddr("10.7.0.0"), length)
		size := sizeOf(prefix)
		at := func(offset uint) netip.Addr { return toIPv4(fromIPv4(prefix.Addr()) + uint32(offset)) }
		last := size - 1
		if length < 31 {
			last-- // the broadcast address is no gateway
		}
		rec := network(t, prefix.String(), at(rapid.UintRange(0, last).Draw(rt, "gateway")).String())
		from := rapid.UintRange(0, size-1).Draw(rt, "from")
		to := rapid.UintRange(from, size-1).Draw(rt, "to")
		reserved := rapid.Bool().Draw(rt, "group")
		var ranges []string
		if reserved {
			ranges = []string{at(from).String() + "-" + at(to).String()}
		}
		p := pool(t, rec, ranges...)
		free := func() (list []netip.Addr) {
			for offset := uint(1); offset+1 < size; offset++ {
				if addr := at(offset); addr.String() != rec.Gateway && !p.used[addr] && !(reserved && offset >= from && offset <= to) {
					list = append(list, addr)
				}
			}
			return list
		}
		rt.Repeat(map[string]func(*rapid.T){
			"take": func(rt *rapid.T) {
				left := free()
				addr, err := p.take()
				if (err != nil) != (len(left) == 0) || err == nil && addr != left[0] {
					rt.Fatalf("got %s, %v of %v", addr, err, left)
				}
			},
			"give back": func(rt *rapid.T) { delete(p.used, at(rapid.UintRange(0, size-1).Draw(rt, "offset"))) },
			"": func(rt *rapid.T) {
				left := free()
				for offset := range size {
					if addr := at(offset); p.Taken(addr) == slices.Contains(left, addr) {
						rt.Fatalf("%s is taken: %v, free are %v", addr, p.Taken(addr), left)
					}
				}
				lists := strings.Join(strings.FieldsFunc(p.Available()+", "+p.Allocated(), func(r rune) bool { return r == ',' || r == ' ' }), ",")
				listed := 0
				for _, part := range strings.Split(lists, ",") {
					if first, last, err := ParsePool(part); err == nil {
						listed += int(offsetIn(prefix, last)-offsetIn(prefix, first)) + 1
					}
				}
				if want := max(0, int(size)-2); listed != want {
					rt.Fatalf("%d addresses are listed, want %d: %s", listed, want, lists)
				}
			},
		})
	})
}

func TestAddressesAboveAnother(t *testing.T) {
	p := pool(t, network(t, "10.1.0.0/28", "10.1.0.14"), "10.1.0.4-10.1.0.6")
	after := func(addr, want string) {
		t.Helper()
		if got, err := p.After(netip.MustParseAddr(addr)); err != nil || got.String() != want {
			t.Errorf("after %s: %s, %v, want %s", addr, got, err, want)
		}
	}
	after("10.1.0.0", "10.1.0.1")
	after("10.1.0.3", "10.1.0.7")  // a range of a group between
	after("10.1.0.13", "10.1.0.1") // the gateway, the end
	after("192.0.2.1", "10.1.0.1") // elsewhere
	after("10.1.0.15", "10.1.0.1") // broadcast
	for _, taken := range []string{"10.1.0.1", "10.1.0.2", "10.1.0.9"} {
		p.used[netip.MustParseAddr(taken)] = true
	}
	after("10.1.0.13", "10.1.0.3")
}
