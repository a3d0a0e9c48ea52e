package border

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/bgp"
)

// Inspect returns the state of the BGP neighbours, and why the
// node is not the configured router; nil: nothing to report.
func (b *Border) Inspect() *mastercfg.NodeBgp {
	view := b.speaker.Inspect()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.problem == "" {
		return view
	}
	if view == nil {
		view = &mastercfg.NodeBgp{Peers: []mastercfg.NodeBgpPeer{}, Dsts: []string{}}
	}
	view.Problem = b.problem
	return view
}

// Register registers the BGP metrics.
func (b *Border) Register(registry prometheus.Registerer) error {
	for _, gauge := range []struct {
		name, help string
		read       func(bgp.Counts) int
	}{
		{"netplugin_bgp_neighbours", "BGP neighbours that are wanted.", func(c bgp.Counts) int { return c.Neighbours }},
		{"netplugin_bgp_sessions", "BGP neighbours with an established session.", func(c bgp.Counts) int { return c.Sessions }},
		{"netplugin_bgp_routes", "Prefixes that BGP neighbours have announced.", func(c bgp.Counts) int { return c.Learned }},
		{"netplugin_bgp_announced", "Prefixes that are announced to BGP neighbours.", func(c bgp.Counts) int { return c.Announced }},
	} {
		err := registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help},
			func() float64 { return float64(gauge.read(b.speaker.Counts())) }))
		if err != nil {
			return err
		}
	}
	return nil
}
