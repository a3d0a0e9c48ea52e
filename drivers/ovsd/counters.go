package ovsd

import (
	"context"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// Counters reads the sums over the flows of each object from the switch. It finds them by their cookie, whatever
// their number is, and stores nothing itself: counters live as long as the flows do, and flows outlive the agent.
func (d *Driver) Counters(ctx context.Context, keys ...pipeline.Key) (map[pipeline.Key]drivers.Counters, error) {
	d.mu.Lock()
	sw := d.sw
	d.mu.Unlock()
	if sw == nil || sw.Err() != nil {
		return nil, fault.New(fault.Unavailable, "bridge %s: counters: the switch is not connected", d.config.Bridge)
	}
	all := make(map[pipeline.Key]drivers.Counters, len(keys))
	for _, key := range keys {
		counters, err := countersOf(ctx, sw, key)
		if err != nil {
			return nil, fault.New(kindOf(err), "counters of %s %s: %w", key.Kind, key.ID, err)
		}
		all[key] = counters
	}
	return all, nil
}

func countersOf(ctx context.Context, sw *openflow.Conn, key pipeline.Key) (c drivers.Counters, err error) {
	sum := func(what pipeline.Counter) drivers.Count {
		if err != nil {
			return drivers.Count{}
		}
		total, failed := sw.Aggregate(ctx, pipeline.CounterFlows(key, what))
		err = failed
		return drivers.Count{Packets: total.Packets, Bytes: total.Bytes}
	}
	switch key.Kind {
	case pipeline.KindEndpoint:
		c.Sent, c.Received = sum(pipeline.CountsSent), sum(pipeline.CountsReceived)
	case pipeline.KindRule:
		c.Decided = sum(pipeline.CountsDecided)
	case pipeline.KindService:
		c.Served, err = servedBy(ctx, sw, key)
	}
	return c, err
}

// servedBy adds up the flows that count for the providers of a service.
func servedBy(ctx context.Context, sw *openflow.Conn, service pipeline.Key) (map[pipeline.Served]drivers.Count, error) {
	all := map[pipeline.Served]drivers.Count{}
	for _, filter := range pipeline.ServedFlows(service) {
		err := sw.EachFlow(ctx, filter, func(f openflow.FlowEntry) error {
			if s, ok := pipeline.ServedBy(f.Flow().Flow); ok {
				all[s] = drivers.Count{Packets: all[s].Packets + f.Packets, Bytes: all[s].Bytes + f.Bytes}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
