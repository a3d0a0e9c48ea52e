package logins

import (
	"context"
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/objdb/ledger"
)

// tokenUses are the API tokens that were shown, on their way into the store, which keeps the hour of the last
// use of each: enough to find those that nobody needs, and one small write of a token in an hour.
type tokenUses struct {
	wake chan struct{}

	mu      sync.Mutex
	noted   map[string]time.Time // by id: the hour
	waiting map[string]time.Time // of these, what the store has not got
}

// retryUses is how long nothing is stored after it was refused.
const retryUses = time.Minute

func newTokenUses() *tokenUses {
	return &tokenUses{wake: make(chan struct{}, 1), noted: map[string]time.Time{}, waiting: map[string]time.Time{}}
}

// note takes a token that was shown.
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
	default: // it is awake
	}
}

// NoteUse notes that an API token was used, if the request was authenticated by one. It is called for authorized requests only.
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
	var again <-chan time.Time // after a refusal
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
