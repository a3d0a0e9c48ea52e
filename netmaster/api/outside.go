package api

import (
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/shares"
)

// Logins that somebody outside is asked about, a directory or a provider of OpenID Connect,
// whom each may make us ask without having logged in: that must neither take the place of
// other logins nor fill the log.

// outside is one of those who are asked.
type outside struct {
	asking  shares.Places
	trouble trouble
}

func newOutside() outside { return outside{asking: make(shares.Places, outsideAtOnce)} }

// logins is what these places are for.
const logins = "logins"

// outsideAtOnce is how many logins each of them is asked about at a time.
const outsideAtOnce = 16

// trouble is what the log was told of last. The zero value is that it was told nothing.
type trouble struct {
	mu   sync.Mutex
	text string
	told time.Time
}

// toldAgain is after what time the log is told the same.
const toldAgain = time.Minute

// isNews tells whether the log has to be told, and takes it that it is.
func (t *trouble) isNews(err error, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if age := now.Sub(t.told); t.text == err.Error() && age >= 0 && age < toldAgain {
		return false
	}
	t.text, t.told = err.Error(), now
	return true
}
