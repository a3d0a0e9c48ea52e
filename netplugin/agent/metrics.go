package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/drivers"
)

// metrics are the agent's metrics. Values that exist elsewhere are read when Prometheus asks.
type metrics struct {
	sync   prometheus.Histogram
	attach prometheus.Histogram
	reaped prometheus.Counter
	polled []prometheus.Collector
}

func newMetrics(a *Agent) metrics {
	duration := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15)})
	}
	m := metrics{
		sync:   duration("netplugin_datapath_sync_duration_seconds", "Time from a change of the wanted datapath to the switch having it."),
		attach: duration("netplugin_attach_duration_seconds", "Time from netmaster's answer to an endpoint that forwards."),
		reaped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "netplugin_ports_reaped_total", Help: "Switch ports removed because their endpoint was gone from the store.",
		}),
	}
	status := func(read func(drivers.Status) float64) func() float64 {
		return func() float64 { return read(a.cfg.Driver.Status()) }
	}
	for _, gauge := range []struct {
		name, help string
		read       func() float64
	}{
		{"netplugin_switch_connected", "1 while the switch answers.", status(func(s drivers.Status) float64 { return boolToFloat(s.Connected) })},
		{"netplugin_switch_in_sync", "1 while the switch has everything that is wanted.", func() float64 { return boolToFloat(a.hasAll()) }},
		{"netplugin_flows", "Flows wanted in the switch.", status(func(s drivers.Status) float64 { return float64(s.Flows) })},
		{"netplugin_ports", "Endpoint ports in the switch.", status(func(s drivers.Status) float64 { return float64(s.Ports) })},
		{"netplugin_objects_pending", "Objects that wait for a missing part.", func() float64 {
			a.mu.Lock()
			defer a.mu.Unlock()
			return float64(len(a.planner.pending))
		}},
	} {
		m.polled = append(m.polled, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help}, gauge.read))
	}
	for _, mirror := range a.mirrors {
		labels := prometheus.Labels{"prefix": mirror.prefix}
		m.polled = append(m.polled,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "netplugin_watch_revision", ConstLabels: labels,
				Help: "Store revision up to which a prefix has been seen."},
				func() float64 { return float64(mirror.Revision()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "netplugin_watch_connected", ConstLabels: labels,
				Help: "1 while the store can be reached."},
				func() float64 { return boolToFloat(mirror.Connected()) }))
	}
	return m
}

// hasAll reports whether the switch has the whole state that has been read so far.
func (a *Agent) hasAll() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.cache.dirty)+len(a.cache.tenants.backlog) == 0 && a.cfg.Driver.Status().InSync
}

func (m metrics) register(registry prometheus.Registerer) error {
	if registry == nil {
		return nil
	}
	for _, collector := range append([]prometheus.Collector{m.sync, m.attach, m.reaped}, m.polled...) {
		if err := registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

func boolToFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
