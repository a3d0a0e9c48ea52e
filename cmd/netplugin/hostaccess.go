package main

import (
	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/cluster"
	"github.com/contiv/netplugin/netplugin/hostaccess"
)

// newHostAccess makes what keeps the host's own interfaces.
func newHostAccess(o *options, node *agent.Agent, master *cluster.Master, driver drivers.NetworkDriver) *hostaccess.Manager {
	return hostaccess.New(hostaccess.Config{HostLabel: o.node.HostLabel, Datapath: node, Master: master, Netdev: inUserspace(driver)})
}

// inUserspace tells whether ovs-vswitchd forwards packets itself.
func inUserspace(driver drivers.NetworkDriver) func() bool {
	return func() bool { return driver.Status().Datapath != ovsd.DatapathSystem }
}
