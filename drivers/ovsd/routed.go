package ovsd

import (
	"context"

	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/drivers/ovsd/tunnelroutes"
)

// routed returns the configuration of package tunnelroutes.
func (d *Driver) routed() tunnelroutes.Config {
	return tunnelroutes.Config{
		Log:           d.log,
		VTEP:          d.config.VTEP,
		AuditInterval: d.config.AuditInterval,
		Control:       d.config.vswitchd(),
		At:            d.links.at(),
		Link:          func() (netlink.Link, bool, error) { return d.links.withAddress(d.config.VTEP) },
		IsLocalPort:   d.db.isLocalPort,
		List:          d.links.routesBy,
		Peers:         d.peers.all,
		Mine:          d.db.client.Owner,
		ExternalIDs:   d.db.externalIDs,
		Note:          d.note,
		News:          d.keeperDue.Send,
	}
}

// isLocalPort reports whether a link is the local port of a bridge of the userspace datapath.
func (db *database) isLocalPort(link string) bool {
	bridge, is := db.bridgeNamed.Row(link)
	return is && bridge.Datapath == DatapathNetdev
}

// keepTunnelRoutes keeps the routes of the switch's tunnels, if the switch routes them.
func (d *Driver) keepTunnelRoutes(ctx context.Context) error {
	if len(d.config.Uplinks) > 0 || d.datapathType() != DatapathNetdev {
		d.tunnelRoutes.Needless()
		<-ctx.Done()
		return ctx.Err()
	}
	return d.tunnelRoutes.Run(ctx)
}

// trunk returns the port that the bridge should have. Open vSwitch looks up the tunnel address in the routes of
// the system, so if it reads none it uses the address of the link as source instead.
func (d *Driver) trunk() trunk {
	want := d.config.trunk()
	known, given := d.tunnelRoutes.State()
	if !known { // it stays as an earlier agent has made it
		have, there := d.db.trunk()
		given = there && have.link.Options["local_ip"] == ""
	}
	if given {
		delete(want.options, "local_ip")
	}
	return want
}

// routesBy returns the system's routes through a link.
func (l *links) routesBy(link netlink.Link, family int) ([]netlink.Route, error) {
	return whole(func() ([]netlink.Route, error) { return l.handle.RouteList(link, family) })
}
