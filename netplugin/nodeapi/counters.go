package nodeapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// countersView is the answer of /inspect/counters.
type countersView struct {
	Rules     map[string]countsView         `json:"rules"`
	Endpoints map[string]endpointCountsView `json:"endpoints"`
	// Services by provider; only if requested.
	Services map[string]map[string]endpointCountsView `json:"services,omitempty"`
}

type countsView struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// endpointCountsView is the traffic of an endpoint as its container sees it.
type endpointCountsView struct {
	RxPackets uint64 `json:"rxPackets"`
	RxBytes   uint64 `json:"rxBytes"`
	TxPackets uint64 `json:"txPackets"`
	TxBytes   uint64 `json:"txBytes"`
}

// inspectCounters answers ?kind=rule|endpoint|service; without
// kind, it answers rules and endpoints. &id= selects one object.
func (h handlers) inspectCounters(w http.ResponseWriter, r *http.Request) {
	kind, id := pipeline.Kind(r.URL.Query().Get("kind")), r.URL.Query().Get("id")
	if kinds := []pipeline.Kind{"", pipeline.KindRule, pipeline.KindEndpoint, pipeline.KindService}; !slices.Contains(kinds, kind) {
		h.fail(w, fault.New(fault.Invalid, "kind %q: want %s, %s or %s, such as /inspect/counters?kind=rule", kind, pipeline.KindRule, pipeline.KindEndpoint, pipeline.KindService))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), countersTimeout)
	defer cancel()
	counted, err := h.Agent.Counters(ctx, kind, id)
	if err != nil {
		h.fail(w, err)
		return
	}
	view := countersView{Rules: make(map[string]countsView), Endpoints: make(map[string]endpointCountsView)}
	for id, n := range counted.Rules {
		view.Rules[id] = countsView(n)
	}
	for id, n := range counted.Endpoints {
		view.Endpoints[id] = endpointCountsView{
			RxPackets: n.Received.Packets, RxBytes: n.Received.Bytes, TxPackets: n.Sent.Packets, TxBytes: n.Sent.Bytes,
		}
	}
	for id, n := range counted.Services {
		if view.Services == nil {
			view.Services = make(map[string]map[string]endpointCountsView)
		}
		view.Services[id] = providersView(n)
	}
	h.json(w, view)
}

// inspectDrops answers the dropped packets, by bridge and reason; reasons without drops are left out.
func (h handlers) inspectDrops(w http.ResponseWriter, r *http.Request) {
	view := map[string]map[string]countsView{}
	if h.Drops == nil {
		h.json(w, view)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), countersTimeout)
	defer cancel()
	bridges, err := h.Drops(ctx)
	if err != nil {
		h.fail(w, err)
		return
	}
	for bridge, drops := range bridges {
		view[bridge] = map[string]countsView{}
		for reason, n := range drops {
			view[bridge][reason] = countsView(n)
		}
	}
	h.json(w, view)
}
