package logins

import (
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/utils/logging"
)

// Logins for which an outside server is asked, a directory or an OpenID Connect provider. Clients can cause
// these requests without having logged in: they must neither block other logins nor fill the log.

// outside limits the requests to one outside server.
type outside struct {
	asking  ratelimit.Semaphore
	trouble logging.Trouble
}

func newOutside() outside { return outside{asking: make(ratelimit.Semaphore, outsideAtOnce)} }

// logins names these places in errors.
const logins = "logins"

// outsideAtOnce is how many logins ask one server at a time.
const outsideAtOnce = 16
