package mastercfg

import "time"

// ClocksApart is how far a netmaster's clock may be behind that of the netmaster that created an item before
// the item is invalid. Certificates are backdated by as much.
const ClocksApart = 24 * time.Hour

// Current reports whether an item with a creation and an expiry time is valid: sessions, tokens and certificates of
// users. A clock that was years ahead created some that expire in years; their creation time is still in the future.
func Current(created, expires, now time.Time) bool {
	return now.Before(expires) && created.Sub(now) <= ClocksApart
}
