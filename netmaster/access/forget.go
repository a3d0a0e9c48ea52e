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
	// remembered is how long expired records are retained, so that refusals and listings can say that they have
	// expired. A leader whose clock is ahead does not remove a record that is valid by the clocks of the others,
	// unless it is ahead by more than this; then no certificate is valid by its clock either.
	remembered = pki.LeafLife
	// forgottenAtOnce is how many records are removed in one transaction.
	forgottenAtOnce = 32
)

// Ledger is the access to the state.
type Ledger interface {
	Update(ctx context.Context, plan func(tx *ledger.Tx) error) (rev int64, err error)
	View(read func(r ledger.Reader) error) error
}

// Forget removes the sessions and join tokens that expired long ago. Those of users who no longer log in, and
// tokens that nobody removes, would remain for ever. API tokens are retained: they have names chosen by users, and
// show, when a program is refused, which rights it had.
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

// forget removes those of some records that still exist and are still old.
func forget(tx *ledger.Tx, keys []string, now time.Time) {
	for _, key := range keys {
		if e, err := ledger.Read[expiring](tx, key); err == nil && e.isOld(now) {
			tx.Delete(key)
		}
	}
}

// expiring has the common fields of the records.
type expiring struct {
	Expires time.Time `json:"expires"`
}

// isOld returns false for a record without an expiry.
func (e expiring) isOld(now time.Time) bool {
	return !e.Expires.IsZero() && now.Sub(e.Expires) >= remembered
}
