package netconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// Keys of CNI_ARGS with requested addresses.
const (
	wantedIP  = "IP"  // one or more, separated by commas, with or without prefix length
	wantedMAC = "MAC" // refused
)

// Wanted are the requested addresses of a container; if one is invalid, the network chooses it.
type Wanted struct{ IPv4, IPv6 netip.Addr }

// ReadWanted returns the addresses requested by CNI_ARGS and the runtime's capabilities, at most one of each IP
// family. A requested hardware address is refused: it is derived from the IP address, so that no neighbour cache
// can be stale.
func ReadWanted(c *Conf, args Args) (w Wanted, err error) {
	for place, mac := range map[string]string{"CNI_ARGS: MAC": args[wantedMAC], "runtimeConfig.mac": c.Runtime.Mac} {
		if mac != "" {
			return w, types.NewError(types.ErrUnsupportedField,
				fmt.Sprintf("network configuration %q: %s %q: hardware addresses follow from IP addresses, ask for one of those", c.Name, place, mac), "")
		}
	}
	texts := slices.Clone(c.Runtime.IPs)
	if args[wantedIP] != "" {
		texts = append(texts, strings.Split(args[wantedIP], ",")...)
	}
	for _, text := range texts {
		bare, _, _ := strings.Cut(strings.TrimSpace(text), "/")
		addr, err := netip.ParseAddr(bare)
		if err != nil || addr.Is4In6() || addr.Zone() != "" {
			return w, notWanted(c, "%q is no IP address", text)
		}
		family := &w.IPv6
		if addr.Is4() {
			family = &w.IPv4
		}
		if family.IsValid() && *family != addr {
			return w, notWanted(c, "%s and %s: one address of each family can be asked for", *family, addr)
		}
		*family = addr
	}
	return w, nil
}

func notWanted(c *Conf, format string, args ...any) error {
	return types.NewError(types.ErrInvalidNetworkConfig,
		fmt.Sprintf("network configuration %q: wanted addresses (runtimeConfig.ips, CNI_ARGS: IP): ", c.Name)+fmt.Sprintf(format, args...), "")
}
