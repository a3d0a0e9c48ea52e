package programmer

import (
	"context"
	"slices"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// A switch may be connected and accept nothing: it refuses all that is written, or does not answer, is disconnected,
// and connected again. The status then contains the time since when changes are pending, if none was accepted since.
//
// A refused object is not such a case: otherwise a user who may write rules could make switches count as broken by
// one rule that they do not accept, on all nodes at once. So when all that was written is refused, the switch is
// sent a change without effect; the same when it is connected again and has not answered the last change.
//
// Nor is a slow switch: the parts of a large change that it accepts are recorded at once, and the time does not
// count in which it sends other answers: its flows, before which nothing can be written, or refusals.

// noteOutstanding records since when the switch has outstanding changes. Refused objects, which wait for their
// next attempt, do not count if the switch accepts others.
func (p *Programmer) noteOutstanding(now time.Time) {
	switch {
	case p.conn.loaded && p.books.pending() == 0:
		p.owes = time.Time{}
	case p.replaced && p.owes.IsZero() && (!p.conn.loaded || p.books.unfinished()):
		p.owes = now
	}
}

// noteAccepted records that the switch has accepted a change. noteOutstanding determines whether others are
// outstanding.
func (p *Programmer) noteAccepted() { p.owes = time.Time{} }

// probeAfterTimeout determines whether a switch that did not answer a change accepts others. The error means
// that it still does not answer.
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

// noteEvery is how often it is recorded that the switch is still sending its flows. Answers that take
// less time count as none.
const noteEvery = time.Second

// noted is a switch whose answers are recorded while the programmer waits for more.
type noted struct {
	Switch
	p *Programmer
}

// noted returns the switch for the programmer's use.
func (p *Programmer) noted() noted { return noted{p.conn.sw, p} }

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
	return p.conn.sw.Bundle(limited, openflow.PackedFlowMod{Command: openflow.FlowAdd, Flow: unmet}, openflow.PackedFlowMod{Command: openflow.FlowDeleteStrict, Flow: unmet})
}
