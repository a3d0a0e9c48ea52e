package uplink

import (
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// negotiation is how long the sides of a bond may take to agree: LACP partners send at least every 30 seconds.
const negotiation = 30 * time.Second

// silence has the links, with the time since when, on which the other side sends no LACP packets,
// while it does on others of the bond: ovs-vswitchd does not use them then. If it sends none at all,
// nothing is missing: the bond works as active-backup.
type silence map[string]time.Time

// note records whether a link gets no LACP packets, and returns whether that lasts longer than LACP takes to agree.
func (s silence) note(leg string, silent bool, now time.Time) (lasts bool) {
	if !silent {
		delete(s, leg)
		return false
	}
	if _, known := s[leg]; !known {
		s[leg] = now
	}
	return now.Sub(s[leg]) >= negotiation
}

// errNoLACP returns the error of a link that gets no LACP packets.
func errNoLACP(leg string) error {
	return fault.New(fault.Unavailable,
		"uplink %s: LACP is not current: nobody answers, so that the bond does not use it; is its port of the switch in the port-channel of the others?", leg)
}

// answered reports whether the other side of a bond sends LACP packets on a link.
func (i interfaceRow) answered() bool { return i.LACPCurrent != nil && *i.LACPCurrent }

// answered reports whether the other side of a bridge's bond sends LACP packets on any of its links.
func (db *database) answered(bridge string) bool {
	for _, link := range db.members(bridge) {
		if link.answered() {
			return true
		}
	}
	return false
}
