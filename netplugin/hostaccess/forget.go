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
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
)

// translations are what conntrack entries depend on that may be stale.
type translations struct {
	ports     []HostPort
	services  []string
	nodePorts []netip.Prefix // the addresses that have them
	here      []netip.Addr   // the host's own, if there are ports at them
}

func (t translations) equal(o translations) bool {
	return slices.Equal(t.ports, o.ports) && slices.Equal(t.services, o.services) && slices.Equal(t.nodePorts, o.nodePorts) && slices.Equal(t.here, o.here)
}

// exist reports whether there are host ports or node ports.
func (t translations) exist() bool { return len(t.ports)+len(t.services) > 0 }

// forget removes stale conntrack entries: after the rules were written where they were missing, as at the start, all;
// after changes of host ports, of node ports, or, while there are such ports, of the host's addresses, those of UDP
// to such ports. Without such ports an error, as of a kernel that does not allow it, is ignored.
func (m *Manager) forget(ports hostPorts, in entrances, pods []netip.Addr) error {
	own, err := Addresses()
	if err != nil {
		return err
	}
	now := translations{ports: ports.all, services: in.datagrams(), nodePorts: in.at}
	if now.exist() {
		now.here = own
	}
	if !m.rules.remade && m.translations.equal(now) {
		return nil
	}
	stale := []netlink.CustomConntrackFilter{staleDatagrams{ports, in, now.here}}
	if m.rules.remade {
		stale = append(stale, unruled{in.outside, own, slices.Concat(in.routed(), pods)})
	}
	if err := forgetFlows(stale...); err != nil && (m.translations.exist() || now.exist()) {
		return err
	}
	m.translations, m.rules.remade = now, false
	return nil
}

// forgetFlows deletes the entries that one of the filters matches.
func forgetFlows(stale ...netlink.CustomConntrackFilter) (err error) {
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		_, failed := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, stale...)
		err = errors.Join(err, failed)
	}
	if err != nil {
		return fmt.Errorf("forget connections that lead elsewhere by now: %w", err)
	}
	return nil
}

// unruled match conntrack entries that the rules do not let begin, and that have begun while the rules were missing:
// of endpoints that go out with their private address, or ask the host at its own; and of others that ask at a private
// address. Rules look at the first packet: while its sender continues, such an entry would never expire. What endpoints
// send would be dropped; the rest would pass.
type unruled struct {
	outside pipeline.Outside
	own     []netip.Addr // of the host
	kept    []netip.Addr // behind the egress interface, where endpoints are not masqueraded
}

// MatchConntrackFlow reports whether an entry is one.
func (u unruled) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	from, asked, to := inet.AddrOf(flow.Forward.SrcIP), inet.AddrOf(flow.Forward.DstIP), inet.AddrOf(flow.Reverse.SrcIP)
	switch {
	case flow.Zone != 0: // of a switch
		return false
	case u.private(from):
		return inet.AddrOf(flow.Reverse.DstIP) == from && !u.isHost(from) && !isElsewhere(from) &&
			(u.isHost(to) || !u.private(to) && !slices.Contains(u.own, to) && !slices.Contains(u.kept, to))
	}
	return u.private(asked) && !slices.Contains(u.own, from) && (u.isHost(asked) || !isElsewhere(asked))
}

// private reports whether an address is one that the host knows endpoints by, or its own or another one among these.
func (u unruled) private(a netip.Addr) bool {
	return slices.ContainsFunc(u.outside.Prefixes(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// isElsewhere reports whether the host reaches a private address by another interface than endpoints: other software, such
// as a VPN, may have taken a part of the private subnet.
func isElsewhere(private netip.Addr) bool {
	by, err := netlink.RouteGetWithOptions(private.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil || len(by) == 0 || inet.PrefixOf(by[0].Dst).Bits() <= 0 { // not reached, or by a default route
		return false
	}
	link, err := netlink.LinkByIndex(by[0].LinkIndex)
	return err == nil && link.Attrs().Name != outsideLink
}

// isHost reports whether an address is that of the host at the egress interface.
func (u unruled) isHost(a netip.Addr) bool {
	return slices.ContainsFunc(u.outside.Prefixes(), func(p netip.Prefix) bool { return pipeline.OutsideAddress(p, pipeline.OutsideHost) == a })
}

// Addresses returns the addresses on the interfaces of the host, sorted. Host ports and node ports depend on them,
// since addresses may move between hosts.
func Addresses() (here []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of the host: %w", err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			here = append(here, inet.AddrOf(n.IP))
		}
	}
	slices.SortFunc(here, netip.Addr.Compare)
	return here, nil
}

// staleDatagrams match conntrack entries of UDP with a translation that no host port or node port has any more:
// while the client continues to send, such an entry would never expire. Entries of an earlier process of netplugin
// count, too. Datagrams to external addresses of services, and to other machines, do not match.
type staleDatagrams struct {
	ports hostPorts
	in    entrances
	here  []netip.Addr // of the host
}

// MatchConntrackFlow reports whether an entry is stale.
func (s staleDatagrams) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP || flow.Zone != 0 { // other zones belong to switches
		return false
	}
	asked := netip.AddrPortFrom(inet.AddrOf(flow.Forward.DstIP), flow.Forward.DstPort)
	served := netip.AddrPortFrom(inet.AddrOf(flow.Reverse.SrcIP), flow.Reverse.SrcPort)
	for _, p := range s.in.outside.Prefixes() {
		if p.Addr().Is4() != asked.Addr().Is4() {
			continue
		}
		if at, led := s.service(p, asked); led { // rules of services precede those of host ports
			return served.Addr() != at
		}
	}
	if to, led := s.leads(asked); led {
		return served != to
	}
	return served != asked && slices.ContainsFunc(s.ports.outside.Prefixes(), func(p netip.Prefix) bool { return p.Contains(served.Addr()) })
}

// service returns the private address to which the host translates datagrams for a service's port at an address;
// led is false if there is no such service.
func (s staleDatagrams) service(private netip.Prefix, asked netip.AddrPort) (to netip.Addr, led bool) {
	at, port := asked.Addr(), agent.NodePort{Protocol: openflow.ProtoUDP, Port: asked.Port()}
	if at.IsLoopback() || !slices.Contains(s.here, at) {
		return to, false
	}
	if slices.Contains(s.in.Balanced, agent.Balanced{Address: at, NodePort: port}) {
		if to, led = s.in.StandIns.Balancer(private, at); led {
			return to, true
		}
	}
	return s.in.nodePort(private, port), slices.Contains(s.in.NodePorts, port) && s.in.hasNodePorts(at)
}

// leads returns the private address and port to which a host port translates datagrams. A host port at the exact
// address has precedence over one at all addresses.
func (s staleDatagrams) leads(asked netip.AddrPort) (to netip.AddrPort, led bool) {
	for _, p := range s.ports.outside.Prefixes() {
		if p.Addr().Is4() != asked.Addr().Is4() {
			continue
		}
		for _, at := range []netip.Addr{asked.Addr(), {}} {
			i := slices.IndexFunc(s.ports.all, func(h HostPort) bool {
				return h.HostPort == mastercfg.HostPort{Address: at, Protocol: "udp", Port: asked.Port(), To: h.To} && h.has(p.Addr())
			})
			if i >= 0 && (asked.Addr().IsLoopback() || slices.Contains(s.here, asked.Addr())) {
				return netip.AddrPortFrom(pipeline.OutsideAddress(p, s.ports.all[i].Number), s.ports.all[i].To), true
			}
		}
	}
	return to, false
}
