package ovsd

import (
	"context"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// Drops asks the switch how much it has thrown away since its flows are there, by the
// name of the reason; every reason is among them.
func (d *Driver) Drops(ctx context.Context) (map[string]drivers.Count, error) {
	d.mu.Lock()
	sw := d.sw
	d.mu.Unlock()
	if sw == nil || ended(sw) {
		return nil, fault.New(fault.Unavailable, "bridge %s: drops: the switch is not connected", d.config.Bridge)
	}
	names, all := map[pipeline.Reason]string{}, map[string]drivers.Count{}
	for _, r := range pipeline.Reasons() {
		names[r.ID], all[r.Name] = r.Name, drivers.Count{}
	}
	err := sw.EachFlow(ctx, pipeline.DropFlows(), func(f openflow.FlowEntry) error {
		if name, known := names[pipeline.DroppedBy(f.Flow().Flow)]; known {
			all[name] = drivers.Count{Packets: f.Packets, Bytes: f.Bytes}
		}
		return nil
	})
	if err != nil {
		return nil, fault.New(kindOf(err), "bridge %s: drops: %w", d.config.Bridge, err)
	}
	return all, nil
}

// DropMetrics are the drops of switches as numbers of a node.
type DropMetrics []*Driver

// dropsTime bounds what asking one switch takes of who reads the numbers.
const dropsTime = 2 * time.Second

var dropsDesc = prometheus.NewDesc("contiv_dropped_packets_total",
	"Packets that the switch has thrown away on purpose, by reason; docs/pipeline.md says what they mean.", []string{"bridge", "reason"}, nil)

// Describe implements prometheus.Collector.
func (DropMetrics) Describe(to chan<- *prometheus.Desc) { to <- dropsDesc }

// Collect implements prometheus.Collector. A switch that does not answer has no numbers.
func (m DropMetrics) Collect(to chan<- prometheus.Metric) {
	for _, d := range m {
		ctx, cancel := context.WithTimeout(context.Background(), dropsTime)
		drops, err := d.Drops(ctx)
		cancel()
		if err != nil {
			d.log.WithError(err).Debug("drops are not told")
		}
		for name, count := range drops {
			to <- prometheus.MustNewConstMetric(dropsDesc, prometheus.CounterValue, float64(count.Packets), d.config.Bridge, name)
		}
	}
}

// Inspect returns the drops by bridge, those that there are.
func (m DropMetrics) Inspect(ctx context.Context) (map[string]map[string]drivers.Count, error) {
	all := make(map[string]map[string]drivers.Count, len(m))
	for _, d := range m {
		drops, err := d.Drops(ctx)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(drops, func(_ string, c drivers.Count) bool { return c == drivers.Count{} })
		all[d.config.Bridge] = drops
	}
	return all, nil
}
