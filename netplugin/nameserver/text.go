package nameserver

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// fold returns a name in lower case: names are compared without case.
func fold(name string) string { return strings.ToLower(name) }

// isLabel reports whether a name is a valid label of a domain name.
func isLabel(name string) bool {
	_, ok := dns.IsDomainName(name)
	return ok && name != "" && len(name) <= 63 && !strings.ContainsAny(name, `.\ `)
}

// parseReverse returns the address of a name below in-addr.arpa or ip6.arpa.
func parseReverse(name string) (netip.Addr, bool) {
	if rest, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		parts := strings.Split(rest, ".")
		if len(parts) != 4 {
			return netip.Addr{}, false
		}
		a, err := netip.ParseAddr(parts[3] + "." + parts[2] + "." + parts[1] + "." + parts[0])
		return a, err == nil
	}
	rest, ok := strings.CutSuffix(name, ".ip6.arpa")
	if !ok || len(rest) != 63 {
		return netip.Addr{}, false
	}
	var b strings.Builder
	for i := len(rest) - 1; i >= 0; i -= 2 {
		b.WriteByte(rest[i])
		if i > 0 && rest[i-1] != '.' {
			return netip.Addr{}, false
		}
		if n := (len(rest)-1-i)/2 + 1; n%4 == 0 && n < 32 {
			b.WriteByte(':')
		}
	}
	a, err := netip.ParseAddr(b.String())
	return a, err == nil && !a.Is4In6()
}

func itoa(n uint16) string { return strconv.FormatUint(uint64(n), 10) }
