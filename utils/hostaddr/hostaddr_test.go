package hostaddr

import (
	"net/netip"
	"strings"
	"testing"
)

// Bridges of containers have equal addresses on many hosts: none of them is that of the host, nor
// is it chosen from a network where the host has another one.
func TestNoHostIsKnownByABridgeOfContainers(t *testing.T) {
	at := func(link, addr string) located { return located{link, netip.MustParseAddr(addr), true} }
	docker, compose, outer, second := at("docker0", "172.17.0.1"), at("br-0a1b2c3d4e5f", "172.18.0.1"), at("eth0", "172.20.0.5"), at("br-ex", "192.0.2.5")
	all := []located{at("lo", "127.0.0.1"), docker, compose, at("eth0", "2001:db8::5"), outer, second}
	for name, c := range map[string]struct {
		all   []located
		named []netip.Addr
		want  located
	}{
		"the first":                              {all, nil, outer},
		"the one of its name":                    {all, []netip.Addr{docker.addr, second.addr}, second},
		"its name is that of a bridge":           {all, []netip.Addr{docker.addr}, outer},
		"a link that is down":                    {[]located{{outer.link, outer.addr, false}, second}, nil, second},
		"a bridge to the outside":                {[]located{compose, second}, nil, second},
		"uplinks, whose addresses we have moved": {[]located{at("contivh0", "172.19.255.254"), at("inb01", "50.1.1.200"), at("contivUplink", "192.0.2.7")}, nil, at("contivUplink", "192.0.2.7")},
		"nothing but what is no way in":          {[]located{docker, compose}, nil, located{}},
	} {
		if got, err := choose(c.all, c.named); got != c.want.addr || (err == nil) != c.want.addr.IsValid() {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if _, err := choose([]located{at("eth0", "2001:db8::5")}, nil); err == nil || !strings.Contains(err.Error(), "give the one of IPv6") {
		t.Errorf("a host with IPv6 only: %v", err)
	}
	for network, want := range map[string]netip.Addr{
		"172.16.0.0/12": outer.addr, "172.17.0.0/16": docker.addr, "2001:db8::/32": netip.MustParseAddr("2001:db8::5"), "198.51.100.0/24": {},
	} {
		if got, err := within(all, netip.MustParsePrefix(network)); got != want || (err == nil) != want.IsValid() {
			t.Errorf("in %s: %s, %v", network, got, err)
		}
	}
}
