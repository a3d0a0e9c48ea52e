package zones

import "github.com/prometheus/client_golang/prometheus"

var (
	connectionsDesc = prometheus.NewDesc("netplugin_tracked_connections",
		"Connections that the datapath tracks on this node, as of the last audit, where they are limited, by tenant (none: in routed VLANs) and what for.", []string{"bridge", "tenant", "for"}, nil)
	connectionsLimitDesc = prometheus.NewDesc("netplugin_tracked_connections_limit",
		"How many of these there may be.", []string{"bridge", "tenant", "for"}, nil)
)

// Describe sends the descriptions of Collect's metrics.
func Describe(to chan<- *prometheus.Desc) {
	to <- connectionsDesc
	to <- connectionsLimitDesc
}

// Collect sends the use of each zone, as of the last audit.
func (b *Bridge) Collect(to chan<- prometheus.Metric) {
	zones := b.zones()
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	for number, z := range zones {
		if use, known := b.used[number]; known {
			to <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(use.count), b.config.Bridge, z.tenant, z.of)
			to <- prometheus.MustNewConstMetric(connectionsLimitDesc, prometheus.GaugeValue, float64(use.limit), b.config.Bridge, z.tenant, z.of)
		}
	}
}
