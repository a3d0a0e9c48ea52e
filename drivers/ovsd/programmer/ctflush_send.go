package programmer

import (
	"context"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// scheduleFlushes schedules connections to be ended that have had no round yet.
func (p *Programmer) scheduleFlushes() { p.queueFlushes(false) }

// repeatFlushes schedules all connections to be ended that need another round.
func (p *Programmer) repeatFlushes() { p.queueFlushes(true) }

func (p *Programmer) queueFlushes(again bool) {
	p.books.queueFlushes(again, time.Now())
	if p.flushAgain == nil && p.books.hasLater() {
		p.flushAgain = time.After(flushPause)
	}
	p.planFlushes()
}

// planFlushes schedules the next step.
func (p *Programmer) planFlushes() {
	p.flushSoon = nil
	if len(p.books.queue) > 0 {
		p.flushSoon = time.After(time.Until(p.pace.next(p.books.noneUrgent(), p.books.passesLeft(p.pace.isLong()))))
	}
}

// flushSome ends the next few connections. Flushes without an answer are repeated.
func (p *Programmer) flushSome(ctx context.Context) {
	if p.sw == nil || !p.loaded {
		return // flushes are found again when the switch is read
	}
	began := time.Now()
	flushes, ends := p.books.nextFlushes(p.pace.atOnce())
	err := p.flush(ctx, flushes)
	ended := time.Now()
	p.pace.note(len(flushes), began, ended)
	switch {
	case err == nil:
		p.books.flushed(ends, p.pace.isLong(), began, ended)
	case isUnsupported(err):
		if !p.cannotFlush {
			p.log.WithError(err).Warn("connections to what has gone are not ended; they end when nothing is sent any more")
		}
		p.cannotFlush = true
		p.books.flushNothing()
	case isRefusal(err):
		p.log.WithError(err).Warn("connections to something that has gone are not ended")
		p.books.flushed(ends, p.pace.isLong(), began, ended)
	default:
		p.log.WithError(err).Warn("connections to what has gone are not ended yet")
	}
	p.planFlushes()
}

func (p *Programmer) flush(ctx context.Context, flushes []openflow.CTFlush) error {
	if len(flushes) == 0 {
		return nil
	}
	messages := make([]openflow.Message, 0, len(flushes))
	for _, f := range flushes {
		messages = append(messages, f)
	}
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	return p.sw.Send(ctx, messages...)
}
