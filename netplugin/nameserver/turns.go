package nameserver

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/utils/fault"
)

// nextTurn is how long a name server may take until the next one is queried as well: longer than most answers
// take, so that mostly one server is queried, and short enough to leave time for the others.
const nextTurn = 400 * time.Millisecond

// turn is a query to one of several name servers.
type turn struct {
	server netip.AddrPort
	began  time.Time
	err    error // why it has no answer; nil: in progress
}

// outcome is the result of a turn.
type outcome struct {
	turn  int
	reply *dns.Msg
	err   error
}

// askServers queries name servers in order: the next one as soon as one has failed, or when none has answered for
// nextTurn, or less with many servers, so that each gets a share of the patience. It returns the first usable
// reply; nil: none. passed has the errors of the servers before the one that replied, or of all. When it returns,
// no query is in progress any more.
func askServers(ctx context.Context, servers []netip.AddrPort, patience time.Duration, ask func(context.Context, netip.AddrPort) (*dns.Msg, error)) (reply *dns.Msg, passed error) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var turns []turn
	outcomes := make(chan outcome, len(servers))
	pause := min(nextTurn, patience/time.Duration(max(1, len(servers))))
	next := time.NewTimer(0)
	defer next.Stop()
	for failed := 0; failed < len(servers); {
		select {
		case <-next.C:
		case o := <-outcomes:
			if o.err == nil {
				return o.reply, unanswered(turns[:o.turn])
			}
			turns[o.turn].err = o.err
			failed++
		}
		if i := len(turns); i < len(servers) {
			turns = append(turns, turn{server: servers[i], began: time.Now()})
			asking.Go(func() {
				reply, err := ask(ctx, servers[i])
				outcomes <- outcome{i, reply, err}
			})
			next.Reset(pause)
		}
	}
	return nil, unanswered(turns)
}

// unanswered joins the reasons why turns have no answer; nil without turns.
func unanswered(turns []turn) error {
	var all []error
	for _, t := range turns {
		if t.err == nil {
			t.err = fault.New(fault.Unavailable, "name server %s: no answer for %s", t.server, time.Since(t.began).Round(time.Millisecond))
		}
		all = append(all, t.err)
	}
	return errors.Join(all...)
}
