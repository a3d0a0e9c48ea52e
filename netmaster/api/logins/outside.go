package logins

import (
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/utils/logging"
)

// Logins that somebody outside is asked about, a directory or a provider of OpenID Connect,
// whom each may make us ask without having logged in: that must neither take the place of
// other logins nor fill the log.

// outside is one of those who are asked.
type outside struct {
	asking  ratelimit.Semaphore
	trouble logging.Trouble
}

func newOutside() outside { return outside{asking: make(ratelimit.Semaphore, outsideAtOnce)} }

// logins is what these places are for.
const logins = "logins"

// outsideAtOnce is how many logins each of them is asked about at a time.
const outsideAtOnce = 16
