package cluster

import (
	"net/netip"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/buildinfo"
)

// RegistrationTTL is how long the registration of a silent node remains valid.
const RegistrationTTL = 10 * time.Second

// Ports under which the original agents served RPC. Nothing listens there any more, but tools identify a node by
// these two registrations.
const (
	vxlanAgentPort = 9002
	vlanAgentPort  = 9003
)

// Node is what a node registers about itself.
type Node struct {
	HostLabel string
	CtrlIP    netip.Addr // address of its REST server
	RESTPort  int        // port of its REST server; 0: the default
	VTEP      netip.Addr
	VXLANPort uint16
	Ready     bool // can attach endpoints
	ByMasters bool // reads the state from netmasters, not from the store

	Authorities string // hash of the CAs by which it verifies netmasters; empty: it has not joined, and serves plain HTTP
}

// Services returns the registrations of a node with these addresses.
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
