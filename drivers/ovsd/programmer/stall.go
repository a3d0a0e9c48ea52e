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

// noteOutstanding records since when the switch has outstanding changes. Refused objects, which wait for their next try, do not
// count if the switch accepts others.
func (p *Programmer) noteOutstanding(now time.Time) {
	switch {
	case p.loaded && p.books.pending() == 0:
		p.owes = time.Time{}
	case p.replaced && p.owes.IsZero() && (!p.loaded || p.books.unfinished()):
		p.owes = now
	}
}

// noteAccepted records that the switch has accepted a change. noteOutstanding finds out whether others are outstanding.
func (p *Programmer) noteAccepted() { p.owes = time.Time{} }

// probeAfterTimeout finds out whether a switch that did not answer a change accepts others. The error means that it still does not
// answer.
func (p *Programmer) probeAfterTimeout(ctx context.Context) error {
	if !p.unanswered {
		return nil
	}
	err := p.probeChange(ctx)
	if err != nil && !isRefusal(err) {
		return err
	}
	if p.unanswered = false; err == nil {
		p.noteAccepted()
		p.noteOutstanding(time.Now())
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
		n.p.extendStall(time.Since(n.p.owes))
	case isRefusal(err):
		n.p.extendStall(time.Since(begun))
	}
	return err
}

func (n noted) SendEach(ctx context.Context, messages ...openflow.Message) (refusals []error, err error) {
	refusals, err = n.Switch.SendEach(ctx, messages...)
	if err == nil && slices.Contains(refusals, nil) {
		n.p.extendStall(time.Since(n.p.owes))
	}
	return refusals, err
}

func (n noted) EachFlow(ctx context.Context, filter openflow.FlowFilter, do func(openflow.FlowEntry) error) error {
	last := time.Now()
	err := n.Switch.EachFlow(ctx, filter, func(f openflow.FlowEntry) error {
		if gone := time.Since(last); gone >= noteEvery {
			n.p.extendStall(gone)
			last = last.Add(gone)
		}
		return do(f)
	})
	if err == nil {
		n.p.extendStall(time.Since(last))
	}
	return err
}

// extendStall excludes a time, in which nothing could be sent, from the time in which the switch has accepted nothing.
func (p *Programmer) extendStall(out time.Duration) {
	if !p.owes.IsZero() && out >= noteEvery {
		p.owes = p.owes.Add(out)
		p.config.Report(p.progress())
	}
}

// probeChange sends a change without effect: it adds and deletes, in one step, a flow after the last table, which no packet
// reaches. The error is the reason why the switch does not accept even that.
func (p *Programmer) probeChange(ctx context.Context) error {
	unmet, err := openflow.Pack(openflow.Flow{Cookie: cookie.New(cookie.Base, "unmet"), Match: openflow.Match{openflow.InPort(openflow.PortController)}})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	return p.sw.Bundle(limited, openflow.PackedFlowMod{Command: openflow.FlowAdd, Flow: unmet}, openflow.PackedFlowMod{Command: openflow.FlowDeleteStrict, Flow: unmet})
}
