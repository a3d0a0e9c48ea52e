package openflow

import (
	"context"
	"fmt"
)

// Flows returns the flows in the switch that pass the filter.
func (c *Conn) Flows(ctx context.Context, filter FlowFilter) ([]FlowStats, error) {
	return list(ctx, c, multipartRequest{partFlow, filter.encode},
		func(d *decoder) []FlowStats { return sized(d, lengthFirst, (*decoder).flowStats) })
}

// Aggregate returns the sum over the flows that pass the filter.
func (c *Conn) Aggregate(ctx context.Context, filter FlowFilter) (Aggregate, error) {
	return one(ctx, c, multipartRequest{partAggregate, filter.encode}, (*decoder).aggregate)
}

// Tables returns the counters of all tables.
func (c *Conn) Tables(ctx context.Context) ([]TableStats, error) {
	return list(ctx, c, multipartRequest{kind: partTable},
		func(d *decoder) []TableStats { return fixed(d, tableStatsSize, (*decoder).tableStats) })
}

// PortDesc returns the ports of the bridge.
func (c *Conn) PortDesc(ctx context.Context) ([]Port, error) {
	return list(ctx, c, multipartRequest{kind: partPortDesc},
		func(d *decoder) []Port { return fixed(d, portSize, (*decoder).port) })
}

// Groups returns all groups.
func (c *Conn) Groups(ctx context.Context) ([]Group, error) {
	return list(ctx, c, multipartRequest{kind: partGroupDesc},
		func(d *decoder) []Group { return sized(d, lengthFirst, (*decoder).group) })
}

// Meters returns all meters.
func (c *Conn) Meters(ctx context.Context) ([]Meter, error) {
	return list(ctx, c, multipartRequest{partMeterConfig, everyMeter},
		func(d *decoder) []Meter { return sized(d, lengthFirst, (*decoder).meter) })
}

// MeterStats returns the counters of all meters.
func (c *Conn) MeterStats(ctx context.Context) ([]MeterStats, error) {
	return list(ctx, c, multipartRequest{partMeter, everyMeter},
		func(d *decoder) []MeterStats { return sized(d, lengthAfterID, (*decoder).meterStats) })
}

func everyMeter(e *encoder) { e.u32(MeterAll); e.zeros(4) }

// MeterFeatures returns the limits of the switch on meters.
func (c *Conn) MeterFeatures(ctx context.Context) (MeterFeatures, error) {
	return one(ctx, c, multipartRequest{kind: partMeterFeatures}, (*decoder).meterFeatures)
}

// one requests a reply that has a single item.
func one[T any](ctx context.Context, c *Conn, request multipartRequest, read func(d *decoder) T) (T, error) {
	var none T
	things, err := list(ctx, c, request, func(d *decoder) []T { return []T{read(d)} })
	if err != nil {
		return none, err
	}
	if len(things) != 1 {
		return none, fmt.Errorf("switch %s: %d answers to %s", c.target, len(things), request)
	}
	return things[0], nil
}
