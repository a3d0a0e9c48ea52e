package resources

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// What the kernel lets no interface have, or sends nowhere, is refused when a network is made, and not when a pod is to have it.
func TestNetworksHaveNoAddressesThatNoHostCanHave(t *testing.T) {
	for _, c := range []struct{ subnet, whose string }{
		{"127.0.0.0/8", "loopback"}, {"127.3.4.0/24", "loopback"}, {"0.0.0.0/8", "no address yet"}, {"224.0.0.0/24", "multicast"},
		{"239.255.255.0/24", "multicast"}, {"255.255.255.240/28", "broadcasts"},
		{"::/64", "loopback"}, {"::/127", "loopback"}, {"fe80::/64", "each link"}, {"feb0::/16", "each link"}, {"ff00::/64", "multicast"}, {"ff02::/16", "multicast"},
	} {
		init, field := InitNetwork, "subnet"
		if strings.Contains(c.subnet, ":") {
			init, field = InitNetworkIPv6, "ipv6Subnet"
		}
		err := init(&mastercfg.CfgNetworkState{}, c.subnet, "")
		if !strings.Contains(text(err), c.subnet) || !strings.Contains(text(err), c.whose) {
			t.Errorf("%s %s: %q", field, c.subnet, text(err))
		}
	}
	for _, subnet := range []string{"1.0.0.0/8", "126.0.0.0/8", "128.0.0.0/8", "169.254.7.0/24", "223.255.255.0/24", "240.1.0.0/16"} {
		if err := InitNetwork(&mastercfg.CfgNetworkState{}, subnet, ""); err != nil {
			t.Errorf("%s: %v", subnet, err)
		}
	}
	for _, subnet := range []string{"::1:0/112", "64:ff9b::/96", "2001:db8::/64", "fd00::/16", "fec0::/16"} {
		if err := InitNetworkIPv6(&mastercfg.CfgNetworkState{}, subnet, ""); err != nil {
			t.Errorf("%s: %v", subnet, err)
		}
	}
}
