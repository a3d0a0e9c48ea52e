package programmer

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// flusher decides when connections are ended, and ends them. It belongs to the programmer.
type flusher struct {
	log    *logrus.Entry
	again  <-chan time.Time // the next round; nil: none
	soon   <-chan time.Time // the next step of a round; nil: none
	pace   flushPace
	cannot bool // the switch has answered that it cannot
}

// schedule schedules connections to be ended that have had no round yet.
func (f *flusher) schedule(l *books) { f.queue(l, false) }

// repeat schedules all connections to be ended that need another round.
func (f *flusher) repeat(l *books) {
	f.again = nil
	f.queue(l, true)
}

func (f *flusher) queue(l *books, again bool) {
	l.queueFlushes(again, time.Now())
	if f.again == nil && l.hasLater() {
		f.again = time.After(flushPause)
	}
	f.plan(l)
}

// plan schedules the next step.
func (f *flusher) plan(l *books) {
	f.soon = nil
	if len(l.queue) > 0 {
		f.soon = time.After(time.Until(f.pace.next(l.noneUrgent(), l.passesLeft(f.pace.isLong()))))
	}
}

// step ends the next few connections. Flushes without an answer are repeated.
func (f *flusher) step(ctx context.Context, sw Switch, l *books) {
	began := time.Now()
	flushes, ends := l.nextFlushes(f.pace.atOnce())
	err := flush(ctx, sw, flushes)
	ended := time.Now()
	f.pace.note(len(flushes), began, ended)
	switch {
	case err == nil:
		l.flushed(ends, f.pace.isLong(), began, ended)
	case isUnsupported(err):
		if !f.cannot {
			f.log.WithError(err).Warn("connections to what has gone are not ended; they end when nothing is sent any more")
		}
		f.cannot = true
		l.flushNothing()
	case isRefusal(err):
		f.log.WithError(err).Warn("connections to something that has gone are not ended")
		l.flushed(ends, f.pace.isLong(), began, ended)
	default:
		f.log.WithError(err).Warn("connections to what has gone are not ended yet")
	}
	f.plan(l)
}

func flush(ctx context.Context, sw Switch, flushes []openflow.CTFlush) error {
	if len(flushes) == 0 {
		return nil
	}
	messages := make([]openflow.Message, 0, len(flushes))
	for _, f := range flushes {
		messages = append(messages, f)
	}
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	return sw.Send(ctx, messages...)
}
