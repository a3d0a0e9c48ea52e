package hostaccess

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestAPrivateSubnetInUseIsRefused(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "ip link add d0 type bridge; ip link set d0 up; ip addr add 192.0.2.1/24 dev d0; ip link add contivh0 type bridge; ip addr add 172.19.255.254/16 dev contivh0; ip link set contivh0 up")
	t.Cleanup(func() { run(t, "ip link del d0; ip link del contivh0") })
	for _, c := range []struct{ add, del, want string }{
		{"addr add 172.19.3.1/24 dev d0", "addr del 172.19.3.1/24 dev d0", "d0 has address 172.19.3.1/24"},
		{"route add 172.19.7.0/24 via 192.0.2.9", "route del 172.19.7.0/24", "route to 172.19.7.0/24 in table 254"},
		{"route add 172.16.0.0/12 via 192.0.2.9 table 220", "route del 172.16.0.0/12 table 220", "route to 172.16.0.0/12 in table 220"}, // of a tunnel to somewhere
		{"route add blackhole 172.19.7.0/24", "route del blackhole 172.19.7.0/24", "172.19.7.0/24"},
		{"route add 172.19.7.0/24 nexthop via 192.0.2.9 nexthop via 192.0.2.8", "route del 172.19.7.0/24", "172.19.7.0/24"},
		{"route add unreachable 172.16.0.0/12", "route del unreachable 172.16.0.0/12", ""},
		{"route add default via 192.0.2.9", "route del default", ""},
		{"route add 172.20.0.0/16 via 192.0.2.9", "route del 172.20.0.0/16", ""},
	} {
		run(t, "ip "+c.add)
		err := isFree(wayOut.Prefix)
		if c.want == "" && err != nil || c.want != "" && (!fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.add, err, c.want)
		}
		if err := isFree(netip.MustParsePrefix("10.20.0.0/16")); err != nil {
			t.Errorf("%s: another subnet: %v", c.add, err)
		}
		run(t, "ip "+c.del)
	}
}
