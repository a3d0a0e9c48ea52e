package cluster

import (
	"net/netip"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/buildinfo"
)

// RegistrationTTL is how long the others go on believing in a silent node.
const RegistrationTTL = 10 * time.Second

// Ports under which the original agents served RPC. Nothing listens there any
// more, but tools count a node by its two registrations.
const (
	vxlanAgentPort = 9002
	vlanAgentPort  = 9003
)

// Node is what a node tells of itself.
type Node struct {
	HostLabel string
	CtrlIP    netip.Addr // where its REST server is reached
	RESTPort  int        // the port of that; 0: the usual one
	VTEP      netip.Addr
	VXLANPort uint16
	Ready     bool // to attach endpoints
	ByMasters bool // it asks netmasters for the state, and does not read the store

	Authorities string // hash of those that it believes netmasters by; empty: it has not joined, and serves in plain HTTP
}

// Services are the registrations of a node that has these addresses.
func (n Node) Services(addresses ...string) []objdb.Service {
	entry := func(name string, addr netip.Addr, port int) objdb.Service {
		return objdb.Service{
			ServiceName: name, Version: buildinfo.Get().Version, TTL: int(RegistrationTTL / time.Second),
			HostAddr: addr.String(), Port: port, REST: n.RESTPort, Hostname: n.HostLabel, Authorities: n.Authorities, Opens: n.ByMasters,
		}
	}
	first := entry(mastercfg.AgentService, n.CtrlIP, vxlanAgentPort)
	first.Addresses, first.Ready, first.AnyPod = addresses, n.Ready, true
	return []objdb.Service{
		first,
		entry(mastercfg.AgentService, n.CtrlIP, vlanAgentPort),
		entry(mastercfg.AgentVTEPService, n.VTEP, int(n.VXLANPort)),
	}
}
