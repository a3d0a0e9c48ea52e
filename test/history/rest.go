package history

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// A client that stops waiting for a response has not cancelled its request: its plan may be in the middle of a
// commit. The committer of a term executes one plan after the other, and a leader that was replaced commits
// nothing more. So when a leader answers a later plan, all earlier requests have happened or never will.

// nobody is the name of a tenant that never exists.
const nobody = "nobody"

// Rest waits until no abandoned request of a client can happen any more, whichever netmaster received it.
func (c *Cluster) Rest(ctx context.Context) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	link := &http.Client{Transport: transport, Timeout: requestTime}
	for _, n := range c.nodes {
		err := testkit.Poll(ctx, func() error {
			call := &Call{Operation: Operation{Verb: Delete, Type: "tenant", Key: nobody}}
			call.answer(ctx, link, "http://"+n.address)
			if call.Outcome != Refused || call.Kind != fault.NotFound {
				return errors.New(call.String())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rest is a revision by which all requests had happened that were abandoned when the cluster was asked.
type rest struct {
	asked    time.Duration // since the start of the run
	revision int64
}

// restsEvery is how often the cluster is asked.
const restsEvery = time.Second

// rests asks the cluster at intervals until the context ends.
func (r *run) rests(ctx context.Context) (all []rest) {
	next := time.NewTicker(restsEvery)
	defer next.Stop()
	for {
		at := rest{asked: time.Since(r.began)}
		err := r.cluster.Rest(ctx)
		if err == nil {
			at.revision, err = r.revision(ctx)
		}
		if err != nil { // the context has ended
			return all
		}
		all = append(all, at)
		select {
		case <-next.C:
		case <-ctx.Done():
			return all
		}
	}
}

// noticing is how long a netmaster may take to notice that a client has gone, and to drop what has not started: it
// may have been stopped, and have read the request only afterwards.
const noticing = requestTime

// bound sets the last revision at which each lost call may have happened.
func bound(calls []*Call, rests []rest) {
	for _, c := range calls {
		if c.Outcome != Unknown {
			continue
		}
		c.To = forever
		if i := slices.IndexFunc(rests, func(r rest) bool { return r.asked >= c.End+noticing }); i >= 0 {
			c.To = rests[i].revision
		}
	}
}
