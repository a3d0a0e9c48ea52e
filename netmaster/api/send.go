package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/api/spool"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/retry"
)

const (
	// answersTotal is the memory of all answers while their clients read.
	answersTotal = 64 << 20
	// answersOfOne is the memory of one client's answers, if no other limit of its long answers applies (sharer).
	answersOfOne = answersTotal / 4
)

// send sends a reply. If the reply cannot be computed, it fails and has sent nothing.
func (a *API) send(w http.ResponseWriter, r *http.Request, said rest.Reply) error {
	if said.Stream != nil {
		said.Stream(w)
		return nil
	}
	var place spool.Place // none for a change: its result is reported, however long
	var client string
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if reads {
		place, client = a.entrance.LongAnswer(r.Context()), auth.BudgetKey(r)
	}
	final := said
	var whole *spool.Answer
	err := retryAfterStored(r.Context(), func() (err error) {
		whole, err = a.answers.Write(r.Context(), client, place, func(out io.Writer) (err error) {
			if said.From == nil && !reads { // the result is reported whatever the client's rights are now
				return said.Write(out)
			}
			final, err = a.writeAllowed(r.Context(), said, out)
			return err
		})
		return err
	})
	if err == nil {
		defer whole.Close()
	}
	if err = a.confirmLed(r, err); err != nil {
		return err
	}
	final.Send(w, whole)
	return nil
}

// writeAllowed writes a reply if the client may still receive it, in the same snapshot from which it is
// computed. It returns the computed reply.
func (a *API) writeAllowed(ctx context.Context, said rest.Reply, out io.Writer) (final rest.Reply, err error) {
	final = said
	err = a.ledger.View(func(reader ledger.Reader) (err error) {
		if err := auth.CallerFrom(ctx).Still(reader); err != nil {
			return err
		}
		if said.From != nil {
			if final, err = said.From(reader); err != nil {
				return err
			}
		}
		return final.Write(out)
	})
	return final, err
}

// retryAfterStored calls do, which needs entity tags. While these are unknown because a large plan is still
// being stored, it waits and calls do again.
func retryAfterStored(ctx context.Context, do func() error) error {
	wait := retry.NewPacer(20*time.Millisecond, time.Second)
	for {
		err := do()
		if !errors.Is(err, ledger.ErrStoring) || ctx.Err() != nil {
			return err
		}
		wait.Sleep(ctx)
	}
}
