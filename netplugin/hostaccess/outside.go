package hostaccess

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// outsideLink is the egress interface: endpoints leave through it, and the host reaches them through it at their
// private addresses.
const outsideLink = "contivh0"

// egress is what is known of the egress interface and of the rules that go with it.
type egress struct {
	mayExist    bool         // the interface, of this process or an earlier one
	prefix      netip.Prefix // with which this process has made or found it; zero: it has not
	rulesExist  bool         // of this process; there may be, that is
	infraClosed bool         // the rules that must precede the host's first interface in an infra network exist
}

// reconcileOutside opens or closes the host's egress for endpoints, as the store wants. If the host uses addresses
// of its subnet for something else, it is not opened; an open one remains.
func (m *Manager) reconcileOutside(ctx context.Context, access agent.HostAccess) error {
	if access.Outside == nil {
		m.Reports.TellTaken(nil)
		m.Reports.TellUnreached(nil)
		return m.closeOutside(ctx, access)
	}
	renamed, err := m.regainOutside()
	if err != nil {
		return err
	}
	m.rules.remade = m.rules.remade || renamed // they know it by its name, and have let begin what they should not
	conflict := isFree(access.Outside.Prefix)
	if conflict == nil || m.isOpen(*access.Outside) {
		return errors.Join(conflict, m.openOutside(ctx, access))
	}
	if fault.Is(conflict, fault.Conflict) {
		return errors.Join(conflict, m.closeOutside(ctx, access))
	}
	return conflict
}

// regainOutside gives the egress interface its name back. It is found by the mark of its port's link, as an earlier
// process may have made it.
func (m *Manager) regainOutside() (changed bool, err error) {
	if _, err := netlink.LinkByName(outsideLink); err == nil {
		return false, nil
	}
	links, err := netlink.LinkList()
	if err != nil {
		return false, fmt.Errorf("interfaces of the host: %w", err)
	}
	i := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Type() == "veth" && l.Attrs().Alias == agent.OutsideID })
	if i < 0 {
		return false, nil
	}
	return m.regain(drivers.Port{HostLink: links[i].Attrs().Name}, outsideLink)
}

// isOpen reports whether the egress is open, by this process or an earlier one.
func (m *Manager) isOpen(o pipeline.Outside) bool {
	if m.egress.prefix == o.Prefix {
		return true
	}
	link, err := netlink.LinkByName(outsideLink)
	if err != nil {
		return false
	}
	have, err := netlink.AddrList(link, unix.AF_INET)
	return err == nil && slices.ContainsFunc(have, func(a netlink.Addr) bool { return o.Prefix.Contains(inet.PrefixOf(a.IPNet).Addr()) })
}

// openOutside opens or repairs the egress. Its firewall rules are written before the interface is made.
func (m *Manager) openOutside(ctx context.Context, access agent.HostAccess) error {
	o := *access.Outside
	m.readStores(ctx)
	all, err := m.hostPorts()
	if err != nil {
		return err
	}
	in, closed := entrances{access.Entrances, o, m.nodePortsAt(access.Primary)}, m.readClosed(access)
	in.Balanced = closed.servable(in.Balanced)
	ports := hostPorts{closed.available(all), o}
	pods, notLearned := m.presentForeign(access, closed) // an error is returned at the end: the rest is reconciled nevertheless
	if pods.at == nil {
		return notLearned
	}
	m.egress.rulesExist = true
	if err := m.rules.apply(ctx, tableFor(o, closed, m.RouterLink, share()).with(in).withHostPorts(ports).withForeignPods(pods).withInfraSources(infraSourcesOf(access.Networks), o)); err != nil {
		return err
	}
	if m.rules.remade && m.egress.prefix.IsValid() {
		m.Log.Info("the rules of the way out by the host set right")
	}
	forgotten := m.forget(ports, in, pods.addresses()) // likewise
	if err := m.forward(access.IPv6); err != nil {
		return err
	}
	m.egress.mayExist = true
	if wait, err := m.waitForEndpoint(ctx); wait || err != nil {
		return err
	}
	port, err := m.Datapath.PrepareOutside(ctx)
	if err != nil {
		return err
	}
	m.egress.prefix = o.Prefix
	want := outsideInterface(o)
	want.mtu, want.checksumInSoftware, want.routes = port.MTU, m.Netdev(), routesTo(slices.Concat(in.routed(), pods.addresses())...)
	changed, err := want.ensure(port, &m.own)
	if changed {
		m.Log.WithFields(logrus.Fields{"interface": want.name, "addresses": want.addresses}).Info("the way out by the host set right")
	}
	if err != nil {
		return err
	}
	if err := routeLoopback(len(ports.all) > 0); err != nil {
		return err
	}
	return errors.Join(forgotten, notLearned, m.reportTaken(in, ports), m.rules.inTheWay(ctx))
}

// waitForEndpoint reports whether the egress has to wait for the link of an endpoint. An egress that existed and
// was removed is made at once.
func (m *Manager) waitForEndpoint(ctx context.Context) (bool, error) {
	if m.egress.prefix.IsValid() || !m.Netdev() {
		return false, nil
	}
	return m.Datapath.OutsideWaits(ctx)
}

// closeOutside removes the port of the egress, if it exists, and then the rules except those about infra networks.
func (m *Manager) closeOutside(ctx context.Context, access agent.HostAccess) error {
	if m.egress.mayExist {
		if err := m.Datapath.Detach(ctx, agent.OutsideID); err != nil {
			return err
		}
		m.egress.mayExist, m.egress.prefix, m.egress.rulesExist = false, netip.Prefix{}, true
		m.Log.Debug("endpoints do not leave by this host")
	}
	if len(access.Networks)+len(m.joined) > 0 {
		return m.closeInfra(ctx, access)
	}
	if !m.egress.rulesExist {
		return nil
	}
	if err := m.rules.remove(ctx); err != nil && !fault.Is(err, fault.Unsupported) { // without nft there is no table
		return err
	}
	m.egress = egress{}
	return nil
}

// closeInfra writes the rules that close control ports to endpoints in infra networks, without an egress.
func (m *Manager) closeInfra(ctx context.Context, access agent.HostAccess) error {
	m.readStores(ctx)
	m.egress.rulesExist = true
	return m.rules.apply(ctx, tableForInfra(m.readClosed(access), share()).withInfraGuard(infraSourcesOf(access.Networks), nil))
}

// closeFirst writes these rules before the host has its first interface in an infra network. A table of an earlier
// process remains until reconcileOutside replaces it: without its rules, packets of endpoints would leave with
// their own address.
func (m *Manager) closeFirst(ctx context.Context, access agent.HostAccess) error {
	if m.egress.infraClosed || len(access.Networks) == 0 {
		return nil
	}
	if !m.rules.there(ctx) {
		if err := m.closeInfra(ctx, access); err != nil {
			return err
		}
	}
	m.egress.infraClosed = true
	return nil
}

// outsideInterface needs no neighbour discovery: the switch receives everything that the host sends to it.
func outsideInterface(o pipeline.Outside) wantedLink {
	w := wantedLink{name: outsideLink, mac: o.MAC[:], noARP: true, forwards: true}
	for _, p := range o.Prefixes() {
		w.addresses = append(w.addresses, netip.PrefixFrom(pipeline.OutsideAddress(p, pipeline.OutsideHost), p.Bits()))
	}
	return w
}
