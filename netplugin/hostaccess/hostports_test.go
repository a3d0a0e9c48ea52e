package hostaccess

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

func TestHostPortsLeadToEndpointsThatHaveTheVersionOfIP(t *testing.T) {
	at := func(address string, four, six bool) HostPort {
		a, _ := netip.ParseAddr(address) // empty: all
		return HostPort{mastercfg.HostPort{Address: a, Protocol: "tcp", Port: 80, To: 8080}, 7, four, six}
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

// A client that goes on sending datagrams is led where the port leads now.
func TestDatagramsToAHostPortThatMovedAreForgotten(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	run(t, `ip link set lo up; nft 'add table inet t; add chain inet t c { type filter hook output priority 0; }; add rule inet t c ct state new counter'
conntrack -I -p udp -s 192.0.2.9 -d 192.0.2.1 --sport 5353 --dport 5000 -t 60 -u UNSET
conntrack -I -p udp -s 192.0.2.9 -d 192.0.2.1 --sport 5353 --dport 5001 -t 60 -u UNSET`)
	before := []HostPort{{mastercfg.HostPort{Protocol: "udp", Port: 5000, To: 1}, 7, true, false}, {mastercfg.HostPort{Protocol: "udp", Port: 5001, To: 1}, 7, true, false}}
	now := slices.Clone(before)
	now[0].Number = 8
	if err := forget(before, now); err != nil {
		t.Fatal(err)
	}
	if left := run(t, "conntrack -L -p udp 2>/dev/null"); strings.Contains(left, "dport=5000") || !strings.Contains(left, "dport=5001") {
		t.Errorf("left: %s", left)
	}
}
