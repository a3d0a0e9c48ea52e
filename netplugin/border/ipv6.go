package border

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/contiv/netplugin/netplugin/agent"
)

// An operator may have disabled IPv6 on all links of the machine, or on new ones. This applies to the interface as
// well, unless the configuration needs IPv6 there. The interface's own setting is not restored when that need ends.

// ipv6Disabled returns the sysctl that disables IPv6 on links of the machine, or on new ones; empty: none does.
func ipv6Disabled() string {
	for _, of := range []string{"all", "default"} {
		value, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv6/conf", of, "disable_ipv6"))
		if err == nil && strings.TrimSpace(string(value)) == "1" {
			return "net.ipv6.conf." + of + ".disable_ipv6"
		}
	}
	return ""
}

// speaksIPv6 reports whether the interface gets IPv6 addresses, and logs it if the machine's sysctls disable IPv6.
func (b *Border) speaksIPv6(w *agent.BGP) bool {
	setting, reason := ipv6Disabled(), b.needsIPv6(w)
	said := ""
	switch {
	case setting == "":
	case reason == "":
		said = "IPv6 stays off at " + Interface + ", as " + setting + " says: nothing needs it there"
	default:
		said = "IPv6 is on at " + Interface + " although it is off by " + setting + ": " + reason
	}
	if said != b.versions && said != "" {
		b.log.Info(said)
	}
	b.versions = said
	return setting == "" || reason != ""
}

// needsIPv6 returns what needs IPv6 at the interface; empty: nothing.
func (b *Border) needsIPv6(w *agent.BGP) string {
	if w.Link6.IsValid() {
		return "the node has address " + w.Link6.String() + " among the routers"
	}
	for _, n := range w.Neighbours {
		if n.Address.Is6() {
			return "it speaks with router " + n.Address.String()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.outer.wanted {
		for _, p := range addressesOf(o, anyAddress) {
			if p.Addr().Is6() {
				return "routers are told of " + p.Addr().String()
			}
		}
	}
	return ""
}
