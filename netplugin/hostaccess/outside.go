package hostaccess

import (
	"context"
	"net/netip"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// outsideLink is the interface by which endpoints leave and the host reaches them
// by their private addresses.
const outsideLink = "contivh0"

// keepOutside keeps the way out by the host, or its absence. The rules of the
// firewall come before the way is open, and go after it is closed.
func (m *Manager) keepOutside(ctx context.Context, access agent.HostAccess) error {
	if access.Outside == nil {
		return m.closeOutside(ctx)
	}
	o := *access.Outside
	if err := isFree(o.Prefix); err != nil {
		return err
	}
	m.learnStores(ctx)
	if err := m.rules.apply(ctx, tableFor(o, m.Closed.with(access, m.stores), m.RouterLink, share())); err != nil {
		return err
	}
	if err := m.forward(access.IPv6); err != nil {
		return err
	}
	m.leads = true
	if wait, err := m.waitForEndpoint(ctx); wait || err != nil {
		return err
	}
	port, err := m.Datapath.PrepareOutside(ctx)
	if err != nil {
		return err
	}
	m.made = true
	want := outsideInterface(o)
	want.mtu, want.checksumInSoftware = port.MTU, m.Netdev()
	changed, err := want.ensure(port, &m.own)
	if changed {
		m.Log.WithFields(logrus.Fields{"interface": want.name, "addresses": want.addresses}).Info("the way out by the host set right")
	}
	if err != nil {
		return err
	}
	return inTheWay(ctx)
}

// waitForEndpoint tells whether the way out has to wait for the link of an endpoint.
// One that was there and is gone is made at once.
func (m *Manager) waitForEndpoint(ctx context.Context) (bool, error) {
	if m.made || !m.Netdev() {
		return false, nil
	}
	return m.Datapath.OutsideWaits(ctx)
}

// closeOutside takes the port and the rules away that there may be.
func (m *Manager) closeOutside(ctx context.Context) error {
	if !m.leads {
		return nil
	}
	if err := m.Datapath.Detach(ctx, agent.OutsideID); err != nil {
		return err
	}
	if err := m.rules.remove(ctx); err != nil && !fault.Is(err, fault.Unsupported) { // without nft there is no table
		return err
	}
	m.leads = false
	m.Log.Debug("endpoints do not leave by this host")
	return nil
}

// outsideInterface needs no neighbour discovery: everything that the host sends
// into it is for the switch.
func outsideInterface(o pipeline.Outside) wantedLink {
	w := wantedLink{name: outsideLink, mac: o.MAC[:], noARP: true}
	for _, p := range o.Prefixes() {
		w.addresses = append(w.addresses, netip.PrefixFrom(pipeline.OutsideAddress(p, pipeline.OutsideHost), p.Bits()))
	}
	return w
}
