package ovsd

import (
	"context"
	"fmt"
)

// Trace asks the switch what it would do with a packet, as fields of a flow without wildcards, and returns its words (package
// oftrace). Nothing is sent and nothing is counted. While it answers, the switch takes no new flows.
func (d *Driver) Trace(ctx context.Context, packet string) (string, error) {
	return d.config.appctl(ctx, "ofproto/trace", d.config.Bridge, packet)
}

// TraceFrom is Trace of a packet that goes on in a table.
func (d *Driver) TraceFrom(ctx context.Context, table uint8, packet string) (string, error) {
	return d.config.appctl(ctx, "ofproto/trace-packet-out", d.config.Bridge, packet, fmt.Sprintf("resubmit(,%d)", table))
}

// Trunk is the OpenFlow number of the port to all other nodes.
func (d *Driver) Trunk() uint32 { return d.db.trunkNumber() }
