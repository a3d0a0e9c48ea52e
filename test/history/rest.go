package history

import (
	"context"
	"errors"
	"net/http"

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
