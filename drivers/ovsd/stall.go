package ovsd

import (
	"context"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// A switch may be connected and take nothing: it refuses whatever is written, or does not answer, is left, and is connected
// again. That is told by when it has begun to owe something, if it has taken nothing since.
//
// An object that it refuses is no such case: whoever may write rules could have a switch counted as broken by one that it does not
// take. So when all that was written is refused, the switch is asked for a change that changes nothing.

// owe notes since when the switch owes something. Objects that it has refused wait for their next try and are no debt, if
// it takes others.
func (p *programmer) owe(now time.Time) {
	switch {
	case p.loaded && p.books.pending() == 0:
		p.owes = time.Time{}
	case p.replaced && p.owes.IsZero() && (!p.loaded || p.books.unfinished()):
		p.owes = now
	}
}

// took notes that the switch has taken something. Whether it owes anything still, owe finds out.
func (p *programmer) took() { p.owes = time.Time{} }

// askAny asks the switch for a change that changes nothing: a flow that no packet meets, behind the end of a table, comes and goes
// in one step. The error is why the switch does not take even that.
func (p *programmer) askAny(ctx context.Context) error {
	unmet, err := openflow.Pack(openflow.Flow{Cookie: cookie.New(cookie.Base, "unmet"), Match: openflow.Match{openflow.InPort(openflow.PortController)}})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	return p.sw.Bundle(limited, openflow.PackedFlowMod{Command: openflow.FlowAdd, Flow: unmet}, openflow.PackedFlowMod{Command: openflow.FlowDeleteStrict, Flow: unmet})
}
