package main

import (
	"context"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/labels"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/cluster"
	"github.com/contiv/netplugin/utils/fault"
)

// newCNIServer returns the server for container runtimes; nil in mode test.
func newCNIServer(o *options, master *cluster.Master, node *agent.Agent, driver drivers.NetworkDriver, portsMoved func(),
	holdsPort func(mastercfg.HostPort) bool) (*k8splugin.Server, error) {
	if o.Mode == "test" {
		return nil, nil
	}
	attachedChanged := portsMoved
	if len(o.probed) == 0 { // not used
		attachedChanged = nil
	}
	return k8splugin.New(k8splugin.Config{
		Mode: k8splugin.Mode(o.Mode), HostLabel: o.node.HostLabel, Labels: labelSource(o.Mode, node),
		Master: master, Datapath: node,
		Netdev:    inUserspace(driver),
		Ports:     driver.Ports,
		Reachable: master.Reachable,

		HostPortsChanged: portsMoved, AttachedChanged: attachedChanged, HoldsPort: holdsPort, TellPorts: node.TellPorts,
		Recorded: node.Recorded,
	})
}

// unattached is a node without a CNI server: no container uses its endpoints.
type unattached struct{ node *agent.Agent }

// User always returns fault.NotFound.
func (unattached) User(epID string) (string, error) {
	return "", fault.New(fault.NotFound, "endpoint %s: no container is attached on this node", epID)
}

// Reclaim removes the port.
func (u unattached) Reclaim(ctx context.Context, epID string) error { return u.node.Detach(ctx, epID) }

// labelSource returns the source of a container's tenant, network and group.
func labelSource(mode string, node *agent.Agent) labels.Source {
	if mode != string(k8splugin.Kubernetes) {
		return labels.Call{}
	}
	return &labels.Placed{Pod: node.Pod}
}
