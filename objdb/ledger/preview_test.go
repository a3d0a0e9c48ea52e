package ledger

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// A dry run of many operations takes seconds: it neither waits for other plans nor delays them.
func TestADryRunNeverEntersTheCommitter(t *testing.T) {
	l, db, seen := newLedger(t)
	mustUpdate(t, l, increment(state+"n"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var running errgroup.Group
	entered, leave := make(chan struct{}), make(chan struct{})
	running.Go(func() error {
		_, err := l.Update(ctx, func(tx *Tx) error {
			close(entered)
			<-leave
			return nil
		})
		return err
	})
	<-entered
	before := seen.batches.Load()
	err := l.Preview(ctx, increment(state+"n"))
	close(leave)
	if err != nil {
		t.Errorf("a dry run while a plan occupies the committer: %v", err)
	}
	err = l.Preview(ctx, func(tx *Tx) error {
		if _, err := l.Update(ctx, increment(state+"other")); err != nil {
			t.Errorf("an update while a dry run plans: %v", err)
		}
		return increment(state + "n")(tx)
	})
	if err != nil {
		t.Error(err)
	}
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
	if kv, err := db.Get(ctx, state+"n"); err != nil || string(kv.Value) != "1" {
		t.Errorf("after dry runs the store has %q, %v", kv.Value, err)
	}
	if made := seen.batches.Load() - before; made > 1 {
		t.Errorf("%d transactions of one update and two dry runs", made)
	}
}
