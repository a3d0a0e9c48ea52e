package hostaccess

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// forget forgets datagrams when host ports have changed, and once when it begins. That it
// cannot, as a kernel may not let it, matters only to who has host ports.
func (m *Manager) forget(now hostPorts) error {
	if m.forgot && slices.Equal(m.ports, now.all) {
		return nil
	}
	if err := now.forget(); err != nil && len(m.ports)+len(now.all) > 0 {
		return err
	}
	m.ports, m.forgot = now.all, true
	return nil
}

// forget has the host's connection tracking forget datagrams to host ports that lead elsewhere
// by now: a client that goes on sending would be led there for ever. What another process of
// netplugin has led counts, too. Datagrams to services and to other machines are none of ours.
func (h hostPorts) forget() error {
	here, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("forget datagrams to host ports: addresses of the host: %w", err)
	}
	stale := staleDatagrams{hostPorts: h}
	for _, a := range here {
		if n, ok := a.(*net.IPNet); ok {
			stale.here = append(stale.here, addrOf(n.IP))
		}
	}
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		_, failed := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, stale)
		err = errors.Join(err, failed)
	}
	if err != nil {
		return fmt.Errorf("forget datagrams to host ports: %w", err)
	}
	return nil
}

// staleDatagrams are connections of UDP that host ports do not lead any more where they go.
type staleDatagrams struct {
	hostPorts
	here []netip.Addr // of the host
}

// MatchConntrackFlow tells whether a connection is one of them.
func (s staleDatagrams) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP || flow.Zone != 0 { // other zones are of switches
		return false
	}
	asked := netip.AddrPortFrom(addrOf(flow.Forward.DstIP), flow.Forward.DstPort)
	served := netip.AddrPortFrom(addrOf(flow.Reverse.SrcIP), flow.Reverse.SrcPort)
	if to, led := s.leads(asked); led {
		return served != to
	}
	for _, p := range s.outside.Prefixes() {
		if p.Contains(served.Addr()) {
			return served != asked && served.Addr() != pipeline.NodePorts(p)
		}
	}
	return false
}

// leads tells where a host port leads datagrams for an address and port. One at that very
// address comes before one at all addresses.
func (s staleDatagrams) leads(asked netip.AddrPort) (to netip.AddrPort, led bool) {
	for _, p := range s.outside.Prefixes() {
		if p.Addr().Is4() != asked.Addr().Is4() {
			continue
		}
		for _, at := range []netip.Addr{asked.Addr(), {}} {
			i := slices.IndexFunc(s.all, func(h HostPort) bool {
				return h.HostPort == mastercfg.HostPort{Address: at, Protocol: "udp", Port: asked.Port(), To: h.To} && h.has(p.Addr())
			})
			if i >= 0 && (at.IsValid() || asked.Addr().IsLoopback() || slices.Contains(s.here, asked.Addr())) {
				return netip.AddrPortFrom(pipeline.OutsideAddress(p, s.all[i].Number), s.all[i].To), true
			}
		}
	}
	return to, false
}
