package daemon

import (
	"testing"

	"github.com/contiv/netplugin/netmaster/k8s"
	"github.com/contiv/netplugin/test/metriclint"
)

// Netmaster's metrics are named by the conventions, and each is in the table of the operators' page.
func TestMetricsAreNamedAndListed(t *testing.T) {
	n := run(t, func(c *Config) { c.Metrics = append(c.Metrics, k8s.NewMetrics()) })
	leader(t, n)
	n.ok("GET", "/version", "") // a request is measured
	metriclint.Check(t, n.daemon.metrics.registry, "netmaster", "../../docs/operations.md")
}
