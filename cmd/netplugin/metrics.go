package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/netplugin/border"
)

// newMetrics returns the metrics of the process, and of the parts that do not register their own.
func newMetrics(own []*ovsd.Driver, routes *border.Border) (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	if routes != nil {
		if err := routes.Register(registry); err != nil {
			return nil, err
		}
	}
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		ovsd.DropMetrics(own), ovsd.DatapathMetrics(own),
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return registry, nil
}
