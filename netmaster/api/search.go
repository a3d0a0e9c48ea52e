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

// searchPatience is how long a search waits for earlier ones.
const searchPatience = 10 * time.Second

// long counts an answer that needs a search, or requests to nodes, as a long one of its client until it is
// complete. Each client may have few of these at once.
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

// search reads all records of a kind, such as all endpoints, to find a few of them. Searches run one at a time,
// so they use one processor at most. Its callers are wrapped in long.
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
