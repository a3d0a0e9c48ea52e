package agent

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/utils/inet"
)

// family is the address family of a field in the store.
type family struct {
	name string
	bits int
}

var (
	v4 = family{"IPv4", 32}
	v6 = family{"IPv6", 128}
)

// parseAddr parses an address of a family. It returns the invalid address ("none") for the empty text.
func parseAddr(text string, f family) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.BitLen() != f.bits || addr.Is4In6() || addr.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q is not an %s address", text, f.name)
	}
	return addr, nil
}

// parseSubnet parses a subnet that the store has as address and length.
func parseSubnet(text string, length uint, f family) (netip.Prefix, error) {
	addr, err := parseAddr(text, f)
	if err != nil || !addr.IsValid() {
		return netip.Prefix{}, err
	}
	if length > uint(f.bits) {
		return netip.Prefix{}, fmt.Errorf("length %d of %s is too long", length, text)
	}
	return netip.PrefixFrom(addr, int(length)).Masked(), nil
}

// parsePrefix parses an address or a CIDR of either family. Empty text returns the invalid prefix, "any".
func parsePrefix(text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Is4In6() || addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a CIDR", text)
		}
		return inet.Host(addr), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a CIDR", text)
	}
	return prefix.Masked(), nil
}
