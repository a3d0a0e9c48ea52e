package ledger

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/utils/fault"
)

// A process that was suspended continues before any timer has ended its term.
func TestAPlanThatWritesNothingIsNotAnsweredOnceTheClockSaysThatTheTermIsOver(t *testing.T) {
	submit := func(l *Ledger, ctx context.Context, plan func(*Tx) error) error {
		_, err := l.Update(ctx, plan)
		return err
	}
	large := func(l *Ledger, ctx context.Context, plan func(*Tx) error) error {
		_, err := l.UpdateLarge(ctx, plan)
		return err
	}
	url := testetcd.New(t)
	for name, run := range map[string]func(*Ledger, context.Context, func(*Tx) error) error{"Update": submit, "UpdateLarge": large, "Preview": (*Ledger).Preview} {
		t.Run(name, func(t *testing.T) {
			var ahead atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			l := openLedger(t, lead(t, testdb.Open(t, objdb.Config{Endpoints: []string{url}, Now: now})))
			reads := func(wakes time.Duration) func(*Tx) error {
				return func(tx *Tx) error {
					tx.Get(state + "a")
					ahead.Store(int64(wakes))
					return nil
				}
			}
			if err := run(l, t.Context(), reads(0)); err != nil {
				t.Errorf("a young term: %v", err)
			}
			if err := run(l, t.Context(), reads(time.Hour)); !fault.Is(err, fault.NotLeader) {
				t.Errorf("stopped for an hour: %v", err)
			}
		})
	}
}
