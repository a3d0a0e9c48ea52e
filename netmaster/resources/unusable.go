package resources

import (
	"net/netip"

	"github.com/contiv/netplugin/utils/fault"
)

// unusable are the addresses that a host cannot have (IANA's special-purpose registries, RFC 6890): the kernel
// refuses them, or never sends packets to them.
var unusable = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "hosts that have no address yet"},
	{netip.MustParsePrefix("127.0.0.0/8"), "each host's loopback"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast groups"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcasts"},
	{netip.MustParsePrefix("::/127"), "each host's loopback, and hosts that have no address yet"},
	{netip.MustParsePrefix("fe80::/10"), "each link"},
	{netip.MustParsePrefix("ff00::/8"), "multicast groups"},
}

// CheckPrivateSubnet refuses a private subnet, which hosts and endpoints have addresses of, for the same reason.
func CheckPrivateSubnet(text string) error {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return fault.New(fault.Invalid, "private subnet %q is not address/length", text).WithField("pvtSubnet")
	}
	return checkUsable(prefix.Masked(), "pvtSubnet")
}

// checkUsable refuses the subnet of a new network if it has addresses that no endpoint can have.
func checkUsable(subnet netip.Prefix, field string) error {
	for _, r := range unusable {
		if subnet.Overlaps(r.prefix) {
			return fault.New(fault.Invalid, "subnet %s has addresses of %s, which are those of %s: endpoints cannot have them", subnet, r.prefix, r.what).WithField(field)
		}
	}
	return nil
}
