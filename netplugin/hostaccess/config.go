package hostaccess

import (
	"context"
	"net/netip"

	"github.com/sirupsen/logrus"
)

// Config is the configuration of a manager: whom it works with, and what it knows of the switch, the host and the containers.
// HostLabel, Datapath, Master, Netdev, VTEP, Closed and RouterLink are required.
type Config struct {
	HostLabel string
	Datapath  Datapath
	Master    Master
	Reports   Reports // nil: nobody is told
	Switch
	Barred
	Entrances
	Containers
	StateDir string // directory for the host's previous settings; empty: DefaultStateDir
	Log      *logrus.Entry
}

// Switch says what forwards the packets of the node, and who receives those of its tunnels.
type Switch struct {
	Netdev         func() bool              // the datapath is in userspace
	TunnelLinks    func() ([]string, error) // links by which a userspace datapath receives tunnels; nil: none
	KernelReceives func() (yes, known bool) // whether the kernel receives tunnels; nil: there are none
	VTEP           netip.Addr               // address of the tunnels' end
}

// Barred is what endpoints do not reach through the host.
type Barred struct {
	Closed     Closed                                      // ports closed to endpoints at the egress; more come from the store
	StoreURLs  func(ctx context.Context) ([]string, error) // of the store's members; nil: only those in Closed
	RouterLink string                                      // interface of the host on the routers' link, closed to endpoints too
}

// Entrances are the addresses of the host at which services are reached.
type Entrances struct {
	NodePortsAt []netip.Prefix // those that have the node ports of services; nil: its primary ones
	Own         netip.Addr     // the primary address of a host that is not a node of Kubernetes
}

// Containers are those of this node, as the CNI server has attached them.
type Containers struct {
	Pods       func() []Pod                      // nil: none
	HostPorts  func() ([]HostPort, error)        // ports of the host that are forwarded to endpoints; nil: none
	Numbers    func() (map[string]uint32, error) // port numbers in the switch, by endpoint; required with Pods
	PortsMoved <-chan struct{}                   // signals that the results of HostPorts or Pods may have changed; nil: never
	Probed     []ProbedNetwork                   // where the host reaches pods of other tenants, and only those
}
