package domains

import (
	"context"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Listener owns the book.
type Listener interface {
	HearAnswer(Answer)
	ForgetAnswers(now time.Time) // expired ones
}

// forgetEvery is the interval of expiry.
const forgetEvery = 10 * time.Second

// Serve passes the answers that the switch sends to a listener, until ctx is done.
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
