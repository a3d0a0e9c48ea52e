package netconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// Keys of CNI_ARGS by which a runtime asks for addresses.
const (
	wantedIP  = "IP"  // one or more, separated by commas, with or without prefix length
	wantedMAC = "MAC" // which nobody can have
)

// Wanted are the addresses a container is to have; an invalid one is for the
// network to choose.
type Wanted struct{ IPv4, IPv6 netip.Addr }

// ReadWanted collects what CNI_ARGS and the runtime's capabilities ask for, at
// most one address of each family. A wanted hardware address is refused: it
// follows from the IP address, so that nobody's cache can hold an old one.
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
