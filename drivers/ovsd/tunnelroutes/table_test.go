package tunnelroutes

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestTheRoutesOfTheSwitchAreRead(t *testing.T) {
	network, all := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("::/0")
	a := netip.MustParseAddr
	for text, want := range map[string]switchTable{
		"Route Table:\n": {},
		"Route Table:\nCached: 127.0.0.1/32 dev lo SRC 127.0.0.1 local\n": {reads: true},
		`Route Table:
User: 192.0.2.0/24 dev br0 SRC 192.0.2.1
User: 10.0.0.0/8 MARK 7 dev br0 SRC 192.0.2.1
User: ::/0 dev br1 GW fe80::1 SRC 2001:db8::1
`: {given: []switchRoute{{to: network, link: "br0", from: a("192.0.2.1")}, {to: all, link: "br1", via: a("fe80::1"), from: a("2001:db8::1")}}},
	} {
		got, err := parseSwitchTable(text)
		if err != nil || got.reads != want.reads || !slices.Equal(got.given, want.given) {
			t.Errorf("%s%+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"User: everywhere dev br0", "User: 10.0.0.0/99 dev br0 SRC 10.0.0.1"} {
		if got, err := parseSwitchTable(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestTheLongestPrefixIsTheWay(t *testing.T) {
	var table switchTable
	for _, to := range []string{"0.0.0.0/0", "192.0.2.0/24", "192.0.2.128/25", "::/0"} {
		table.given = append(table.given, switchRoute{to: netip.MustParsePrefix(to), link: to})
	}
	ways := table.ways()
	for address, want := range map[string]string{"192.0.2.1": "192.0.2.0/24", "192.0.2.129": "192.0.2.128/25", "198.51.100.1": "0.0.0.0/0", "2001:db8::1": "::/0"} {
		if r, ok := ways.to(netip.MustParseAddr(address)); !ok || r.link != want {
			t.Errorf("%s: %s, %v", address, r.link, ok)
		}
	}
	if r, ok := (switchTable{}).ways().to(netip.MustParseAddr("192.0.2.1")); ok {
		t.Error(r)
	}
}

// Whatever the switch prints, each route read from it is on a line of its own, and has a destination.
func FuzzTablesOfAnyContent(f *testing.F) {
	for _, text := range []string{"", "Route Table:\nCached: 127.0.0.1/32 dev lo SRC 127.0.0.1 local\n", "User: 192.0.2.0/24 dev br0 SRC 192.0.2.1\nUser: 10.0.0.0/8 MARK 7 dev br0\n",
		"User: ::/0 dev br1 GW fe80::1 SRC 2001:db8::1\n", "User: 192.0.2.0/24 dev br0\nUser: 10.0.0.0/99 dev br0", "User: 0.0.0.0/0 dev", "User:"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseSwitchTable(text)
		if err != nil && (got.reads || got.given != nil) {
			t.Errorf("of what cannot be read, %+v is", got)
		}
		if n := strings.Count(text, "User:"); len(got.given) > n || got.reads && !strings.Contains(text, "Cached:") {
			t.Errorf("%d routes are read of %d", len(got.given), n)
		}
		ways := got.ways()
		for _, r := range got.given {
			if !r.to.IsValid() || !strings.Contains(text, r.link) {
				t.Errorf("%+v is read", r)
			}
			if way, ok := ways.to(r.to.Addr()); r.to == r.to.Masked() && (!ok || way.to.Bits() < r.to.Bits()) {
				t.Errorf("to %s, %+v is the way: %v", r.to, way, ok)
			}
		}
	})
}
