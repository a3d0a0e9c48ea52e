package hostaccess

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/utils/inet"
)

// The translation of host ports and node ports precedes sockets: a process of the host that listens on such a port
// receives nothing, without an error.

// reportTaken reports the host ports and node ports on which processes of the host listen, and the
// node ports that are also host ports of endpoints.
func (m *Manager) reportTaken(in entrances, ports hostPorts) error {
	if len(in.NodePorts)+len(in.Balanced)+len(ports.all) == 0 {
		m.Reports.TellTaken(nil)
		return nil
	}
	all, err := listeners()
	if err != nil {
		return err
	}
	m.Reports.TellTaken(takenPorts(in, ports, all))
	return nil
}

// takenPorts returns the ports with listeners, each with the first listener, and the ports of services whose
// packets endpoints receive.
func takenPorts(in entrances, ports hostPorts, all []listener) (some []agent.TakenPort) {
	slices.SortFunc(all, func(a, b listener) int { return a.at.Compare(b.at) })
	add := func(port agent.TakenPort, meets func(listener) bool) {
		if i := slices.IndexFunc(all, func(l listener) bool { return l.protocol == port.Protocol && l.at.Port() == port.Port && meets(l) }); i >= 0 {
			port.By = all[i].at
			some = append(some, port)
		}
	}
	for _, p := range in.NodePorts {
		taken := agent.TakenPort{Protocol: inet.TransportName(p.Protocol), Port: p.Port}
		if i := slices.IndexFunc(ports.all, func(h HostPort) bool { return in.overriddenBy(h, taken) }); i >= 0 {
			taken.Leads = ports.all[i].Endpoint
			some = append(some, taken)
			continue
		}
		add(taken, func(l listener) bool { return in.meets(l) })
	}
	for _, p := range in.Balanced {
		add(agent.TakenPort{Protocol: inet.TransportName(p.Protocol), Port: p.Port, Address: p.Address}, func(l listener) bool {
			return l.at.Addr() == p.Address || l.at.Addr().IsUnspecified() && slices.ContainsFunc(versions, func(v netip.Addr) bool { return v.Is4() == p.Address.Is4() && l.takesAll(v) })
		})
	}
	for _, p := range ports.all {
		add(agent.TakenPort{Protocol: p.Protocol, Port: p.Port, Endpoint: p.Endpoint}, func(l listener) bool { return p.meets(l) })
	}
	return some
}

// overriddenBy reports whether a host port receives, at some address, packets to a node port: rules of host ports
// come first. There are no node ports at loopback addresses.
func (e entrances) overriddenBy(h HostPort, node agent.TakenPort) bool {
	return h.Protocol == node.Protocol && h.Port == node.Port && !h.Address.IsLoopback() && slices.ContainsFunc(e.at, func(p netip.Prefix) bool {
		return h.leads(p.Addr()) && (!h.Address.IsValid() || p.Contains(h.Address))
	})
}

// meets reports whether node ports take packets from a listener. There are none at loopback addresses.
func (e entrances) meets(l listener) bool {
	a := l.at.Addr()
	if a.IsUnspecified() {
		return slices.ContainsFunc(versions, func(v netip.Addr) bool {
			return l.takesAll(v) && slices.ContainsFunc(e.at, func(p netip.Prefix) bool { return p.Addr().Is4() == v.Is4() })
		})
	}
	return !a.IsLoopback() && e.hasNodePorts(a)
}

// meets reports whether a host port takes packets from a listener. There is none at the IPv6 loopback address.
func (p HostPort) meets(l listener) bool {
	a := l.at.Addr()
	switch {
	case a.IsUnspecified():
		return slices.ContainsFunc(versions, func(v netip.Addr) bool { return l.takesAll(v) && p.leads(v) })
	case p.Address.IsValid():
		return a == p.Address
	}
	return cmp.Or(a.Is4(), !a.IsLoopback()) && p.has(a)
}
