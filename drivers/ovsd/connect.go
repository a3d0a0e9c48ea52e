package ovsd

import (
	"context"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// Pauses between attempts to reach the switch, which is on this machine: a
// restart of ovs-vswitchd takes a moment, and every moment costs.
const (
	firstRedial = 20 * time.Millisecond
	lastRedial  = time.Second
)

// connect keeps an OpenFlow connection and hands each one to the programmer.
func (d *Driver) connect(ctx context.Context) error {
	// The socket is there once ovs-vswitchd has seen the bridge, and then it
	// has an opinion of the tunnel port.
	err := d.db.client.Wait(ctx, func() (bool, error) {
		tunnel, ok := d.db.tunnel()
		return ok && (tunnel.link.OFPort != nil || tunnel.link.Error != nil), nil
	})
	if err != nil {
		return err
	}
	client := openflow.Client{
		Target:  d.config.openflowTarget(),
		Options: openflow.Options{Log: d.log},
		Backoff: func(failures int) time.Duration { return min(firstRedial<<min(failures, 10), lastRedial) },
		OnConnect: func(ctx context.Context, conn *openflow.Conn) error {
			select {
			case d.connections <- conn:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	return client.Run(ctx)
}
