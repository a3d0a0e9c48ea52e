package api

import (
	"context"
	"time"

	"github.com/contiv/netplugin/netmaster/shares"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// searchPatience is how long a search waits for those before it.
const searchPatience = 10 * time.Second

// search looks through all records of a kind, such as all endpoints, for a few of them. It is a long answer to its
// client, of which each has few at once, and searches are made one after the other: however many are asked for, they take one
// processor.
func (a *API) search(ctx context.Context, look func(ledger.Reader) error) error {
	release, err := a.entrance.Take(ctx, shares.LongAnswer)
	if err != nil {
		return err
	}
	defer release()
	waiting, cancel := context.WithTimeout(ctx, searchPatience)
	defer cancel()
	done, err := a.searches.Wait(waiting)
	if err != nil {
		return fault.New(fault.Unavailable, "too many searches at a time, try again in a moment: %w", err)
	}
	defer done()
	return a.ledger.View(look)
}
