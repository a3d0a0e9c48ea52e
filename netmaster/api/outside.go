package api

import (
	"context"
	"sync"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// Logins that somebody outside is asked about, a directory or a provider of OpenID Connect,
// whom each may make us ask without having logged in: that must neither take the place of
// other logins nor fill the log.

// outside is one of those who are asked.
type outside struct {
	asking  places
	trouble trouble
}

func newOutside() outside { return outside{asking: make(places, outsideAtOnce)} }

// logins is what these places are for.
const logins = "logins"

// outsideAtOnce is how many logins each of them is asked about at a time.
const outsideAtOnce = 16

// places are for so many at a time.
type places chan struct{}

// take takes one, until done is called. It does not wait: what says which there are too many of.
func (p places) take(what string) (done func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	default:
		return nil, fault.New(fault.Unavailable, "too many %s at a time, try again in a moment", what)
	}
}

// wait takes one as soon as there is one, until done is called.
func (p places) wait(ctx context.Context) (done func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

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
