package domains

import (
	"context"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Listener has the book.
type Listener interface {
	HearAnswer(Answer)
	ForgetAnswers(now time.Time) // those that do not count any more
}

// forgetEvery is how often it is looked for these.
const forgetEvery = 10 * time.Second

// Serve tells a listener of the answers that the switch sends, until ctx is done.
func Serve(ctx context.Context, bus drivers.PacketBus, l Listener) error {
	packets := bus.Packets(pipeline.PacketAnswer)
	forget := time.NewTicker(forgetEvery)
	defer forget.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p := <-packets:
			if a, ok := read(payload(p.Data)); ok {
				l.HearAnswer(a)
			}
		case now := <-forget.C:
			l.ForgetAnswers(now)
		}
	}
}
