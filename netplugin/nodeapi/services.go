package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// The JSON of /svcstats is that of the original controller: clients, their services, the providers of these. The
// switch counts by provider and not by client, so all clients of a tenant on this node are one entry, NODE:TENANT.

// portStats: In is what providers sent to clients, Out what clients sent to providers.
type portStats struct{ PacketsIn, BytesIn, PacketsOut, BytesOut uint64 }

type clientStats struct {
	EndpointIP string // of the node
	VrfName    string // the tenant
	PortStats  portStats
	SvcStats   map[string]svcStats // by virtual address; by ADDRESS:PORT:PROTOCOL if it has several ports in the tenant, of one service or of several
}

type svcStats struct {
	ServiceIP, ServiceVRF, Protocol, SvcPort, ProvPort string

	SvcStats  portStats
	ProvStats map[string]provStats // by the provider's address
}

type provStats struct {
	ProviderIP, ServiceIP, ServiceVrf string
	portStats
}

func (s *portStats) add(in, out drivers.Count) {
	s.PacketsIn += in.Packets
	s.BytesIn += in.Bytes
	s.PacketsOut += out.Packets
	s.BytesOut += out.Bytes
}

func (h handlers) serviceStats(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), countersTimeout)
	defer cancel()
	counted, err := h.Agent.Counters(ctx, pipeline.KindService, "")
	if err != nil {
		h.fail(w, err)
		return
	}
	h.json(w, clientsOf(h.CtrlIP, counted.Services))
}

// clientsOf returns the clients of a node, by tenant.
func clientsOf(node string, services map[string]agent.ServiceCounts) map[string]clientStats {
	all, ports := map[string]clientStats{}, portsAt(services)
	for _, s := range services {
		key := node + ":" + s.Tenant
		clients, known := all[key]
		if !known {
			clients = clientStats{EndpointIP: node, VrfName: s.Tenant, SvcStats: map[string]svcStats{}}
		}
		for _, p := range s.Ports {
			name, stats := p.Address.String(), statsOf(s, p)
			if ports[site{s.Tenant, p.Address}] > 1 {
				name += ":" + stats.SvcPort + ":" + stats.Protocol
			}
			clients.SvcStats[name] = stats
			for _, n := range p.Providers {
				clients.PortStats.add(n.Sent, n.Received)
			}
		}
		all[key] = clients
	}
	return all
}

// site is an address in a tenant. Services may share it, as node ports do.
type site struct {
	tenant  string
	address netip.Addr
}

// portsAt counts the ports at each address.
func portsAt(services map[string]agent.ServiceCounts) map[site]int {
	count := map[site]int{}
	for _, s := range services {
		for _, p := range s.Ports {
			count[site{s.Tenant, p.Address}]++
		}
	}
	return count
}

func statsOf(s agent.ServiceCounts, p agent.PortCounts) svcStats {
	stats := svcStats{
		ServiceIP: p.Address.String(), ServiceVRF: s.Tenant, Protocol: "UDP", SvcPort: fmt.Sprint(p.Port), ProvPort: fmt.Sprint(p.Target),
		ProvStats: map[string]provStats{},
	}
	if p.Protocol == openflow.ProtoTCP {
		stats.Protocol = "TCP"
	}
	for provider, n := range p.Providers {
		one := provStats{ProviderIP: provider.String(), ServiceIP: stats.ServiceIP, ServiceVrf: s.Tenant}
		one.add(n.Sent, n.Received)
		stats.ProvStats[one.ProviderIP] = one
		stats.SvcStats.add(n.Sent, n.Received)
	}
	return stats
}

// providersView returns the part of /inspect/counters for a service, by the provider's address.
func providersView(s agent.ServiceCounts) map[string]endpointCountsView {
	view := map[string]endpointCountsView{}
	for _, p := range s.Ports {
		for provider, n := range p.Providers {
			sum := view[provider.String()]
			view[provider.String()] = endpointCountsView{
				RxPackets: sum.RxPackets + n.Received.Packets, RxBytes: sum.RxBytes + n.Received.Bytes,
				TxPackets: sum.TxPackets + n.Sent.Packets, TxBytes: sum.TxBytes + n.Sent.Bytes,
			}
		}
	}
	return view
}
