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

// A client that waits for an answer no longer has not undone what it asked for: its plan may be in the middle of a
// commit. The committer of a term takes one plan after the other, and a leader that is followed by another commits
// nothing more. So what a leader says of the next plan, it says after all that was asked before has happened or never will.

// nobody is the name of a tenant that never is.
const nobody = "nobody"

// Rest waits until nothing that clients have given up can happen any more, whatever netmaster they asked.
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

// rest is a revision by which everything had happened that clients had given up when their cluster was asked.
type rest struct {
	asked    time.Duration // since the beginning of the run
	revision int64
}

// restsEvery is how often the cluster is asked.
const restsEvery = time.Second

// rests asks until the context ends.
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

// noticing is how long a netmaster may take to see that a client is gone, and with it what has not begun to happen: it may
// have stood still, and have read the request only afterwards.
const noticing = requestTime

// bound gives each lost call the last revision at which it may have happened.
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
