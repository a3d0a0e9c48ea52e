package ovsd

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// Drops reads from the switch how many packets it has dropped since its flows were added, by the name of the
// reason; every reason is included.
func (d *Driver) Drops(ctx context.Context) (map[string]drivers.Count, error) {
	d.mu.Lock()
	sw := d.sw
	d.mu.Unlock()
	if sw == nil || sw.Err() != nil {
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

// DropMetrics are the drops of switches as metrics of a node.
type DropMetrics []*Driver

// dropsTime limits how long a scrape waits for the switches.
const dropsTime = 2 * time.Second

var dropsDesc = prometheus.NewDesc("netplugin_dropped_packets_total",
	"Packets that the switch has thrown away on purpose, by reason; docs/pipeline.md says what they mean.", []string{"bridge", "reason"}, nil)

// Describe implements prometheus.Collector.
func (DropMetrics) Describe(to chan<- *prometheus.Desc) { to <- dropsDesc }

// Collect implements prometheus.Collector. A switch that does not answer has no metrics.
func (m DropMetrics) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), dropsTime)
	defer cancel()
	all, _ := m.collect(ctx)
	for bridge, drops := range all {
		for name, count := range drops {
			to <- prometheus.MustNewConstMetric(dropsDesc, prometheus.CounterValue, float64(count.Packets), bridge, name)
		}
	}
}

// Inspect returns the drops by bridge. A bridge whose switch does not answer is omitted; it is an error if none does.
func (m DropMetrics) Inspect(ctx context.Context) (map[string]map[string]drivers.Count, error) {
	all, err := m.collect(ctx)
	if len(all) == 0 {
		return nil, err
	}
	for _, drops := range all {
		maps.DeleteFunc(drops, func(_ string, c drivers.Count) bool { return c == drivers.Count{} })
	}
	return all, nil
}

// collect reads the drops of all switches in parallel. It returns them by bridge, and the errors of the others.
func (m DropMetrics) collect(ctx context.Context) (map[string]map[string]drivers.Count, error) {
	answers, errs := make([]map[string]drivers.Count, len(m)), make([]error, len(m))
	var asking sync.WaitGroup
	for i, d := range m {
		asking.Go(func() { answers[i], errs[i] = d.Drops(ctx) })
	}
	asking.Wait()
	all := make(map[string]map[string]drivers.Count, len(m))
	for i, d := range m {
		if errs[i] != nil {
			d.log.WithError(errs[i]).Debug("drops are not told")
			continue
		}
		all[d.config.Bridge] = answers[i]
	}
	return all, errors.Join(errs...)
}
