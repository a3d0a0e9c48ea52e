package auth

import (
	"context"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/objdb/ledger"
)

// Ledger is the leader's access to the state, for plans of any size.
type Ledger interface {
	master.Ledger
	UpdateLarge(ctx context.Context, plan func(tx *ledger.Tx) error) (rev int64, err error)
}

// Guard returns a ledger whose plans are authorized: each first checks that the caller in its context still has
// the right that the route needs, in the state that the plan sees.
func Guard(l Ledger) Ledger { return guarded{l} }

type guarded struct{ Ledger }

func (g guarded) Update(ctx context.Context, plan func(*ledger.Tx) error) (int64, error) {
	return g.Ledger.Update(ctx, first(ctx, withDecision(ctx, plan)))
}

func (g guarded) UpdateLarge(ctx context.Context, plan func(*ledger.Tx) error) (int64, error) {
	return g.Ledger.UpdateLarge(ctx, first(ctx, withDecision(ctx, plan)))
}

func (g guarded) Preview(ctx context.Context, plan func(*ledger.Tx) error) error {
	return g.Ledger.Preview(ctx, first(ctx, plan))
}

// withDecision wraps a plan so that it records in the caller whether the plan was accepted.
func withDecision(ctx context.Context, plan func(*ledger.Tx) error) func(*ledger.Tx) error {
	caller := CallerFrom(ctx)
	if caller == nil {
		return plan
	}
	return func(tx *ledger.Tx) error {
		err := plan(tx)
		if err == nil {
			caller.planned.Store(true)
		}
		return err
	}
}

// first wraps a plan so that it checks the caller's right first.
func first(ctx context.Context, plan func(*ledger.Tx) error) func(*ledger.Tx) error {
	caller := CallerFrom(ctx)
	if caller == nil {
		return plan
	}
	return func(tx *ledger.Tx) error {
		if err := caller.Still(tx); err != nil {
			return err
		}
		if _, err := caller.enforced(tx); err != nil { // for refuse
			return err
		}
		return plan(tx)
	}
}
