// Package refusal refuses clients of a service without backends, as a host without a listener would: TCP gets a
// reset, anything else the ICMP error port unreachable. Otherwise clients would wait until they time out.
//
// The switch sends such packets here because flows cannot make these answers. It limits their rate, by port and as
// a whole; see ofnet/pipeline/refuse.go.
package refusal

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Serve answers the packets that the switch sends until ctx is done. An answer that the switch does not accept is
// lost, as any packet may be.
func Serve(ctx context.Context, bus drivers.PacketBus, log *logrus.Entry) error {
	packets := bus.Packets(pipeline.PacketRefused)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p := <-packets:
			answer := answerTo(p.Data)
			if answer == nil {
				continue
			}
			if err := bus.Send(ctx, p.Reply(answer)); err != nil {
				log.WithError(err).WithField("port", p.Port).Debug("a client of a service is not told that nobody serves it")
			}
		}
	}
}
