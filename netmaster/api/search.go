package api

import (
	"context"
	"net/http"
	"time"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// searchPatience is how long a search waits for those before it.
const searchPatience = 10 * time.Second

// long counts an answer that is searched for, or that nodes are asked about, as a long one of its client until it is
// there. Each client has few of those at once.
func (a *API) long(answer rest.Answer) rest.Answer {
	return func(r *http.Request) (rest.Reply, error) {
		release, err := a.entrance.Take(r.Context(), ratelimit.LongAnswer)
		if err != nil {
			return rest.Reply{}, err
		}
		defer release()
		return answer(r)
	}
}

// search looks through all records of a kind, such as all endpoints, for a few of them. Searches are made one after the
// other: however many are asked for, they take one processor. Its callers answer with long.
func (a *API) search(ctx context.Context, look func(ledger.Reader) error) error {
	waiting, cancel := context.WithTimeout(ctx, searchPatience)
	defer cancel()
	done, err := a.searches.Acquire(waiting)
	if err != nil {
		return fault.New(fault.Unavailable, "too many searches at a time, try again in a moment: %w", err)
	}
	defer done()
	return a.ledger.View(look)
}
