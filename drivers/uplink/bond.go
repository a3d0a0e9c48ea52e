package uplink

import "strings"

// BondMode is how packets are distributed over several links. The names are those of Open vSwitch.
type BondMode string

// Bond modes.
const (
	ActiveBackup BondMode = "active-backup" // one link carries all packets; the switches need no support
	BalanceSLB   BondMode = "balance-slb"   // by source MAC and VLAN; the switches need no support
	BalanceTCP   BondMode = "balance-tcp"   // by connection, with LACP; active-backup without LACP on the other side

	DefaultBondMode = BalanceTCP
)

// BondModes lists the modes.
func BondModes() []string {
	return []string{string(ActiveBackup), string(BalanceSLB), string(BalanceTCP)}
}

// ParseBondMode parses a mode; empty means the default.
func ParseBondMode(text string) (BondMode, bool) {
	if text == "" {
		return DefaultBondMode, true
	}
	for _, mode := range BondModes() {
		if strings.EqualFold(text, mode) {
			return BondMode(mode), true
		}
	}
	return "", false
}

// lacp returns the value of the column lacp.
func (m BondMode) lacp() string {
	if m == BalanceTCP {
		return "active"
	}
	return "off"
}

// otherConfig returns the keys of the column other_config that the mode needs.
func (m BondMode) otherConfig() map[string]string {
	if m == BalanceTCP {
		return map[string]string{"lacp-fallback-ab": "true"}
	}
	return nil
}
