package mastercfg

import "time"

// ClocksApart is how far the clock of a netmaster may be behind that of the one that has made something before what it made counts no more.
// Certificates are dated back by as much.
const ClocksApart = 24 * time.Hour

// Current tells whether what was made at one time, and ends at another, counts: sessions, tokens and certificates of users. A clock that
// was years ahead made some that end in years; these have a time of making that is still to come.
func Current(created, expires, now time.Time) bool {
	return now.Before(expires) && created.Sub(now) <= ClocksApart
}
