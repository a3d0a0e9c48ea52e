package inet

import (
	"net"
	"net/netip"
	"testing"
)

func TestHostsOfThisMachineOnly(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true,
		"": false, "192.0.2.1": false, "::": false, "2001:db8::1": false, "localhost.example.org": false, "[::1]": false,
	} {
		if got := IsLoopbackHost(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}

func TestPlainURLsBeyondThisMachineAreHeard(t *testing.T) {
	for text, want := range map[string]bool{
		"http://192.0.2.1:2379": true, "http://[2001:db8::1]:2379": true, "http://etcd:2379": true, "http://0.0.0.0:2379": true, "http://[::]:2379": true,
		"https://192.0.2.1:2379": false, "http://127.0.0.1:2379": false, "http://[::1]:2379": false, "http://localhost:2379": false, "": false,
	} {
		if got := IsExposed(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestPrefixesBecomeNetworksAndAreThemselvesAgain(t *testing.T) {
	for _, text := range []string{"0.0.0.0/0", "192.0.2.7/24", "::/0", "2001:db8::/33"} {
		p := netip.MustParsePrefix(text)
		if got := PrefixOf(IPNet(p)); got != p {
			t.Errorf("%s became %s", p, got)
		}
	}
	mapped := &net.IPNet{IP: net.ParseIP("192.0.2.0"), Mask: net.CIDRMask(24, 32)} // of 16 bytes
	if got := PrefixOf(mapped); got != netip.MustParsePrefix("192.0.2.0/24") {
		t.Error(got)
	}
	if got := PrefixOf(nil); got.IsValid() {
		t.Error(got)
	}
	if got := AddrOf(nil); got.IsValid() {
		t.Error(got)
	}
}
