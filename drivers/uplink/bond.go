package uplink

import "strings"

// BondMode says how packets are spread over several links. The names are those of
// Open vSwitch.
type BondMode string

// Bond modes.
const (
	ActiveBackup BondMode = "active-backup" // one link carries everything; no help of the switches needed
	BalanceSLB   BondMode = "balance-slb"   // by source MAC and VLAN; no help of the switches needed
	BalanceTCP   BondMode = "balance-tcp"   // by connection, with LACP; active-backup while the other side does not speak it

	DefaultBondMode = BalanceTCP
)

// BondModes lists them.
func BondModes() []string {
	return []string{string(ActiveBackup), string(BalanceSLB), string(BalanceTCP)}
}

// ParseBondMode reads a mode; empty means the default.
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

// lacp is the column of that name.
func (m BondMode) lacp() string {
	if m == BalanceTCP {
		return "active"
	}
	return "off"
}

// otherConfig are the keys of the port's column that the mode needs.
func (m BondMode) otherConfig() map[string]string {
	if m == BalanceTCP {
		return map[string]string{"lacp-fallback-ab": "true"}
	}
	return nil
}
