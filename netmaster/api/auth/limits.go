package auth

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/api/spool"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/utils/fault"
)

// Limits of one identity in a secured cluster. Root and netmasters have none.
const (
	// ClientRate is the default of requests per second, and clientBurst times that may arrive at once.
	ClientRate  = 200
	clientBurst = 2 // times that

	clientWatches = 32
	clientApplies = 1
	clientAnswers = 4 // long ones
)

// clientLimits returns the limits of one identity, with so many requests per second.
func clientLimits(perSecond rate.Limit) ratelimit.Limits {
	if perSecond == 0 {
		perSecond = ClientRate
	}
	return ratelimit.Limits{Rate: perSecond, Burst: int(max(1, min(clientBurst*perSecond, 1<<30))),
		Most: [...]int{ratelimit.Watch: clientWatches, ratelimit.Apply: clientApplies, ratelimit.LongAnswer: clientAnswers}}
}

// client returns the name under which a request is counted: the identity, or the address without one. bounded
// is false for clients without limits. Nodes are counted by their keys: whoever still has a key that was revoked
// must not use up what the node with this name has.
func (c *Caller) client() (name string, bounded bool) {
	switch c.Who.Kind {
	case identity.Root, identity.Master:
		return "", false
	case identity.Nobody:
		return "nobody at " + accounts.Source(c.source), true
	case identity.Node:
		return c.Who.String() + " with key " + c.Who.KeyHash, true
	}
	return c.Who.String(), true
}

// waitForLimits waits until the limits permit a request, if that is soon; otherwise it returns an error.
func (e *Entrance) waitForLimits(ctx context.Context, caller *Caller) error {
	client, bounded := caller.client()
	if !bounded {
		return nil
	}
	wait, ok := e.limiter.Request(client, e.config.Now())
	if !ok {
		return caller.excess("%s has sent more than %g requests a second: try again later", client, float64(e.limits.Rate))
	}
	if wait == 0 || caller.limitsOnlyNoted() {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "request: %w", ctx.Err())
	}
}

// lasting names the kinds of long requests in refusals.
var lasting = map[ratelimit.Lasting]string{ratelimit.Watch: "watches", ratelimit.Apply: "apply", ratelimit.LongAnswer: "long answers"}

// Take counts a request that takes long, until release is called; it fails if the client has too many.
func (e *Entrance) Take(ctx context.Context, kind ratelimit.Lasting) (release func(), err error) {
	nothing := func() {}
	caller := CallerFrom(ctx)
	if caller == nil {
		return nothing, nil
	}
	client, bounded := caller.client()
	if !bounded {
		return nothing, nil
	}
	if release, ok := e.limiter.Take(client, kind, e.config.Now()); ok {
		return release, nil
	}
	return nothing, caller.excess("%s has %d %s at once: that is as many as one client may have, try again later", client, e.limits.Most[kind], lasting[kind])
}

// LongAnswer returns the function that counts a long answer.
func (e *Entrance) LongAnswer(ctx context.Context) spool.Place {
	return func() (release func(), err error) { return e.Take(ctx, ratelimit.LongAnswer) }
}

// BudgetKey returns the name under which the answer to a request is counted in the memory budget of answers:
// the identity, or the address without one. It is empty if the answer is not counted: for root, for netmasters,
// and for clients on the machine of a netmaster.
//
// Without this share, a client that reads just fast enough could occupy the whole budget for hours; in an
// enforced cluster, which limits the number of its long answers, with four large ones. The address is that of
// the connection; only a netmaster with a certificate may name the address for which it forwards a request.
// Without certificates, all clients of a follower have the follower's address. So the share is in bytes, and
// enough for several answers of a large cluster. It is a quarter and not half, because a client can use three
// addresses: its own, and those of two followers.
func BudgetKey(r *http.Request) string {
	caller := CallerFrom(r.Context())
	if caller == nil { // the cluster is open
		caller = &Caller{Who: identity.From(r.Context()), source: rest.SourceOf(r)}
		if rest.Forwarded(r, caller.Who) {
			caller.Who = identity.Identity{}
		}
	}
	client, bounded := caller.client()
	if !bounded || rest.OfThisMachine(r) {
		return ""
	}
	return client
}

// limitsOnlyNoted reports whether requests beyond the limits are served and only recorded.
func (c *Caller) limitsOnlyNoted() bool { return c.mode != mastercfg.SecurityEnforced }

// excess refuses a request that exceeds a limit of its client; in a permissive cluster it only records that.
// The status is 429 for clients that accept application/problem+json, and 500 for others.
func (c *Caller) excess(format string, args ...any) error {
	err := rest.WithStatus(http.StatusTooManyRequests, fault.New(fault.Unavailable, format, args...))
	if c.limitsOnlyNoted() {
		c.note(err)
		return nil
	}
	c.exceeds = err
	return err
}
