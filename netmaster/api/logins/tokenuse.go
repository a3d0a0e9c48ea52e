package logins

import (
	"context"
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/objdb/ledger"
)

// tokenUses collects the uses of API tokens for the store, which has the hour of the last use of each: enough
// to find unused tokens, at the cost of one small write per token and hour.
type tokenUses struct {
	wake chan struct{}

	mu      sync.Mutex
	noted   map[string]time.Time // by id: the hour of the last use
	waiting map[string]time.Time // the part that is not stored yet
}

// retryUses is the pause after a failed write.
const retryUses = time.Minute

func newTokenUses() *tokenUses {
	return &tokenUses{wake: make(chan struct{}, 1), noted: map[string]time.Time{}, waiting: map[string]time.Time{}}
}

// note records the use of a token.
func (u *tokenUses) note(id string, now time.Time) {
	hour := access.HourOf(now)
	u.mu.Lock()
	defer u.mu.Unlock()
	if !access.IsNews(hour, u.noted[id]) {
		return
	}
	u.noted[id], u.waiting[id] = hour, hour
	select {
	case u.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// NoteUse records the use of an API token, if the request was
// authenticated by one. It is called for authorized requests only.
func (l *Logins) NoteUse(who identity.Identity) {
	if who.Kind == identity.Token {
		l.uses.note(who.Session, l.config.Now())
	}
}

// take returns the uses to store.
func (u *tokenUses) take() map[string]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.waiting
	u.waiting = map[string]time.Time{}
	return taken
}

// putBack queues uses again that could not be stored, unless there are newer ones.
func (u *tokenUses) putBack(taken map[string]time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, hour := range taken {
		if hour.After(u.waiting[id]) {
			u.waiting[id] = hour
		}
	}
}

// Run stores the uses of tokens until ctx ends.
func (l *Logins) Run(ctx context.Context) {
	var again <-chan time.Time // after a failed write
	for {
		wake := l.uses.wake
		if again != nil {
			wake = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-again:
		}
		again = nil
		uses := l.uses.take()
		if _, err := l.config.Ledger.Update(ctx, func(tx *ledger.Tx) error { return access.NoteUses(tx, uses) }); err != nil {
			l.uses.putBack(uses)
			again = time.After(retryUses)
			l.config.Log.WithError(err).WithField("tokens", len(uses)).Debug("the last use of API tokens is not stored")
		}
	}
}
