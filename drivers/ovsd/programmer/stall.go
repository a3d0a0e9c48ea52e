package programmer

import (
	"context"
	"slices"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// A switch may be connected and take nothing: it refuses whatever is written, or does not answer, is left, and is connected
// again. That is told by when it has begun to owe something, if it has taken nothing since.
//
// An object that it refuses is no such case: whoever may write rules could have a switch counted as broken by one that it does not
// take, on all nodes at once. So when all that was written is refused, the switch is asked for a change that changes nothing; and so it
// is when it is connected again and has given no answer to what was written before.
//
// Nor is a switch that is slow: what it takes of a large change is noted at once, and the time does not count in which it answers to
// something else: tells its flows, which nothing can be written before, or refuses.

// owe notes since when the switch owes something. Objects that it has refused wait for their next try and are no debt, if
// it takes others.
func (p *Programmer) owe(now time.Time) {
	switch {
	case p.loaded && p.books.pending() == 0:
		p.owes = time.Time{}
	case p.replaced && p.owes.IsZero() && (!p.loaded || p.books.unfinished()):
		p.owes = now
	}
}

// took notes that the switch has taken something. Whether it owes anything still, owe finds out.
func (p *Programmer) took() { p.owes = time.Time{} }

// takesOthers finds out whether a switch that gave no answer to a change takes others. The error is that it answers nothing again.
func (p *Programmer) takesOthers(ctx context.Context) error {
	if !p.unanswered {
		return nil
	}
	err := p.askAny(ctx)
	if err != nil && !isRefusal(err) {
		return err
	}
	if p.unanswered = false; err == nil {
		p.took()
		p.owe(time.Now())
		p.searched(time.Now())
	}
	return nil
}

// noteEvery is how often it is noted that the switch goes on telling its flows. Answers that take less time count as none.
const noteEvery = time.Second

// noted is a switch of which is noted what it answers while the programmer waits for more.
type noted struct {
	Switch
	p *Programmer
}

// noted is the switch that the programmer works with.
func (p *Programmer) noted() noted { return noted{p.sw, p} }

func (n noted) Bundle(ctx context.Context, messages ...openflow.Message) error {
	begun := time.Now()
	err := n.Switch.Bundle(ctx, messages...)
	switch {
	case err == nil:
		n.p.goesOn(time.Since(n.p.owes))
	case isRefusal(err):
		n.p.goesOn(time.Since(begun))
	}
	return err
}

func (n noted) SendEach(ctx context.Context, messages ...openflow.Message) (refusals []error, err error) {
	refusals, err = n.Switch.SendEach(ctx, messages...)
	if err == nil && slices.Contains(refusals, nil) {
		n.p.goesOn(time.Since(n.p.owes))
	}
	return refusals, err
}

func (n noted) EachFlow(ctx context.Context, filter openflow.FlowFilter, do func(openflow.FlowEntry) error) error {
	last := time.Now()
	err := n.Switch.EachFlow(ctx, filter, func(f openflow.FlowEntry) error {
		if gone := time.Since(last); gone >= noteEvery {
			n.p.goesOn(gone)
			last = last.Add(gone)
		}
		return do(f)
	})
	if err == nil {
		n.p.goesOn(time.Since(last))
	}
	return err
}

// goesOn leaves some time out of that in which the switch has taken nothing.
func (p *Programmer) goesOn(out time.Duration) {
	if !p.owes.IsZero() && out >= noteEvery {
		p.owes = p.owes.Add(out)
		p.config.Report(p.progress())
	}
}

// askAny asks the switch for a change that changes nothing: a flow that no packet meets, behind the end of a table, comes and goes
// in one step. The error is why the switch does not take even that.
func (p *Programmer) askAny(ctx context.Context) error {
	unmet, err := openflow.Pack(openflow.Flow{Cookie: cookie.New(cookie.Base, "unmet"), Match: openflow.Match{openflow.InPort(openflow.PortController)}})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	return p.sw.Bundle(limited, openflow.PackedFlowMod{Command: openflow.FlowAdd, Flow: unmet}, openflow.PackedFlowMod{Command: openflow.FlowDeleteStrict, Flow: unmet})
}
