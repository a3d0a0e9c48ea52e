package main

import (
	"net/netip"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/bridges"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/drivers/ovsd/zones"
	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/announcer"
	"github.com/contiv/netplugin/netplugin/border"
	"github.com/contiv/netplugin/netplugin/tracing"
)

// newDriver returns the driver of the node, and that of each bridge: first the one with a tunnel and, if there are
// uplinks, one with those. If there are none any more, their former configuration is undone. machines returns
// addresses that the host must continue to reach as before.
func newDriver(o *options, machines func() ([]netip.Addr, error)) (node drivers.NetworkDriver, own []*ovsd.Driver, routes *border.Border, err error) {
	both := ovsd.Config{
		RunDir: o.runDir, Datapath: o.datapath, Names: o.names.on, NoSizeChecks: !o.tooBig, SlowFrom: o.slowFrom,
		ZoneLimit: o.tenantConnections, Tenants: &zones.Tenants{},
	}
	config := both
	config.VTEP, config.VXLANPort = o.node.VTEP, o.node.VXLANPort
	tunnel, err := ovsd.New(config)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(o.uplinks) == 0 {
		return bridges.NewAlone(tunnel, uplink.NewFormer(uplink.Config{RunDir: o.runDir}, border.Undo)), []*ovsd.Driver{tunnel}, nil, nil
	}
	config = both
	config.Uplinks = o.uplinks
	vlan, err := ovsd.New(config)
	if err != nil {
		return nil, nil, nil, err
	}
	links, err := uplink.New(uplink.Config{RunDir: o.runDir, Serves: ovsd.DefaultUplinkBridge, Links: o.uplinks, Mode: o.bondMode})
	if err != nil {
		return nil, nil, nil, err
	}
	routes = border.New(border.Config{Driver: announcer.New(vlan, links.Returned()), Uplinks: o.uplinks, Machines: machines})
	return bridges.New(tunnel, routes, links), []*ovsd.Driver{tunnel, vlan}, routes, nil
}

// tracer traces packets in the switches of the node.
func tracer(node *agent.Agent, own []*ovsd.Driver) tracing.Tracer {
	t := tracing.Tracer{Inspect: node.Inspect}
	for _, bridge := range own {
		t.Switches = append(t.Switches, bridge)
	}
	return t
}
