package ovsd

import (
	"context"
	"fmt"
	"time"

	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
)

// Queries to ovs-vswitchd for other packages.

// vswitchd returns the ovs-vswitchd of the bridge.
func (c Config) vswitchd() vswitchd.Control { return vswitchd.Control{RunDir: c.RunDir} }

// Release returns the upstream version of the running ovs-vswitchd, such as 3.1.0. It does not show
// patches of a distribution.
func (d *Driver) Release(ctx context.Context) (string, error) {
	return d.config.vswitchd().Release(ctx)
}

// Began returns when the program of the running ovs-vswitchd was started; zero if this process does
// not see it, as from a container.
func (d *Driver) Began(ctx context.Context) (time.Time, error) { return d.config.vswitchd().Began(ctx) }

// Trace lets the switch trace a packet, given as fields of a flow without wildcards, and returns its output
// (package oftrace). Nothing is sent or counted. Meanwhile ovs-vswitchd accepts no new flows.
func (d *Driver) Trace(ctx context.Context, packet string) (string, error) {
	return d.config.vswitchd().Call(ctx, "ofproto/trace", d.config.Bridge, packet)
}

// TraceFrom traces a packet that continues in a table.
func (d *Driver) TraceFrom(ctx context.Context, table uint8, packet string) (string, error) {
	return d.config.vswitchd().Call(ctx, "ofproto/trace-packet-out", d.config.Bridge, packet, fmt.Sprintf("resubmit(,%d)", table))
}

// Trunk returns the OpenFlow number of the port to all other nodes.
func (d *Driver) Trunk() uint32 { return d.db.trunkNumber() }
