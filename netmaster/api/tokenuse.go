package api

import (
	"context"
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/objdb/ledger"
)

// tokenUses are the API tokens that were shown, on their way into the store, which keeps the hour of the last
// use of each: enough to find those that nobody needs, and one small write of a token in an hour.
type tokenUses struct {
	wake chan struct{}

	mu      sync.Mutex
	hour    time.Time
	shown   map[string]bool // by id: in this hour
	waiting []string        // ids that the store has not got
}

func newTokenUses() *tokenUses {
	return &tokenUses{wake: make(chan struct{}, 1), shown: map[string]bool{}}
}

// note takes a token that was shown.
func (u *tokenUses) note(id string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if hour := access.HourOf(now); !hour.Equal(u.hour) {
		u.hour, u.waiting = hour, nil
		clear(u.shown)
	}
	if u.shown[id] {
		return
	}
	u.shown[id] = true
	u.waiting = append(u.waiting, id)
	select {
	case u.wake <- struct{}{}:
	default: // it is awake
	}
}

// take returns what waits, with its hour.
func (u *tokenUses) take() (ids []string, hour time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	ids, u.waiting = u.waiting, nil
	return ids, u.hour
}

// forget lets the next use of tokens be noted, as the store has not got this one.
func (u *tokenUses) forget(ids []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range ids {
		delete(u.shown, id)
	}
}

// storeUses stores the uses of tokens until ctx ends.
func (a *API) storeUses(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.uses.wake:
		}
		ids, hour := a.uses.take()
		_, err := a.ledger.Update(ctx, func(tx *ledger.Tx) error {
			for _, id := range ids {
				if err := access.NoteUse(tx, id, hour); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			a.uses.forget(ids)
			a.config.Log.WithError(err).WithField("tokens", len(ids)).Debug("the last use of API tokens is not stored")
		}
	}
}
