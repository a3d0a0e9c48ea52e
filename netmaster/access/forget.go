package access

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/ledger"
)

const (
	// remembered is how long what has expired is kept: whoever shows it, or lists it, is told that it has. A leader whose clock is ahead
	// takes nothing away for good that is still good by those of the others, unless it is ahead by more than this, and then no certificate is
	// good any more by its clock.
	remembered = pki.LeafLife
	// forgottenAtOnce is how many records go in one transaction.
	forgottenAtOnce = 32
)

// Ledger is the way to the state.
type Ledger interface {
	Update(ctx context.Context, plan func(tx *ledger.Tx) error) (rev int64, err error)
	View(read func(r ledger.Reader) error) error
}

// Forget removes the sessions and join tokens that expired long ago. Those of users who log in no more, and tokens that
// nobody removes, would be there for ever. API tokens stay: they have names that somebody has given them, and still tell
// him, when a program is refused, what it had.
func Forget(ctx context.Context, l Ledger, now time.Time) error {
	var old []string
	noteOld := func(key string, e expiring) error {
		if e.isOld(now) {
			old = append(old, key)
		}
		return nil
	}
	err := l.View(func(r ledger.Reader) error {
		return errors.Join(ledger.ReadEach(r, mastercfg.SessionPrefix, noteOld), ledger.ReadEach(r, mastercfg.JoinTokenPrefix, noteOld))
	})
	if err != nil {
		return err
	}
	for some := range slices.Chunk(old, forgottenAtOnce) {
		if _, err := l.Update(ctx, func(tx *ledger.Tx) error { forget(tx, some, now); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// forget removes those of some records that are there, and old, still.
func forget(tx *ledger.Tx, keys []string, now time.Time) {
	for _, key := range keys {
		if e, err := ledger.Read[expiring](tx, key); err == nil && e.isOld(now) {
			tx.Delete(key)
		}
	}
}

// expiring is what the records have in common.
type expiring struct {
	Expires time.Time `json:"expires"`
}

// isOld is false of a record that does not say when it ends.
func (e expiring) isOld(now time.Time) bool {
	return !e.Expires.IsZero() && now.Sub(e.Expires) >= remembered
}
