package agent

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Packets of clients to an address of the host itself are delivered to the host. It forwards them to the switch
// under a stand-in address (pipeline.StandIns), for an address that a load balancer has put on an interface of
// the host, and for a UDP node port. Stand-ins differ between nodes.

// standIns are the stand-ins of this node.
type standIns struct {
	here     []netip.Addr        // addresses on interfaces of the host, ascending
	balanced index               // address of a load balancer -> services of the pipeline with it
	udp      map[uint16]struct{} // UDP node ports
	known    pipeline.StandIns
}

func newStandIns() standIns { return standIns{balanced: make(index), udp: make(map[uint16]struct{})} }

// Balanced is a port of a service at an address that a load balancer has put on an interface of the host.
type Balanced struct {
	Address netip.Addr
	NodePort
}

// HostHas sets the addresses on the host's interfaces.
func (a *Agent) HostHas(addresses []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cache.setStandInAddresses(addresses) {
		a.wakeHost()
		a.changed.Send()
	}
}

// setStandInAddresses sets the addresses and returns whether they have changed.
func (c *cache) setStandInAddresses(addresses []netip.Addr) bool {
	here := slices.Compact(slices.SortedFunc(slices.Values(addresses), netip.Addr.Compare))
	if slices.Equal(here, c.standIns.here) {
		return false
	}
	c.standIns.here = here
	c.findStandIns()
	return true
}

// findStandIns computes the stand-ins again, and marks the services whose stand-ins have changed.
func (c *cache) findStandIns() {
	var balancers []netip.Addr
	for _, a := range c.standIns.here {
		if len(c.standIns.balanced[a.String()]) > 0 {
			balancers = append(balancers, a)
		}
	}
	now := pipeline.NewStandIns(balancers, slices.Collect(maps.Keys(c.standIns.udp)))
	addresses, ports := now.Moved(c.standIns.known)
	c.standIns.known = now
	for _, a := range addresses {
		for id := range c.standIns.balanced[a.String()] {
			c.mark(pipeline.KindService, id)
		}
	}
	for _, port := range ports {
		for owner := range c.services.nodePorts[nodePortKey(openflow.ProtoUDP, port)] {
			_, id, _ := strings.Cut(owner, " ")
			c.mark(pipeline.KindService, id)
		}
	}
	if len(addresses)+len(ports) > 0 {
		c.hostChanges()
	}
}

// placeUDPNodePort updates the UDP node ports after a change of the index of node ports.
func (c *cache) placeUDPNodePort(p pipeline.ServicePort) {
	if !p.Shared || p.Protocol != openflow.ProtoUDP {
		return
	}
	_, known := c.standIns.udp[p.Port]
	if owned := len(c.services.nodePorts[nodePortKey(p.Protocol, p.Port)]) > 0; owned == known {
		return
	} else if owned {
		c.standIns.udp[p.Port] = struct{}{}
	} else {
		delete(c.standIns.udp, p.Port)
	}
	c.findStandIns()
}

// placeBalanced adds the load balancer addresses of a service to the index, or removes them.
func (c *cache) placeBalanced(id string, ports []kubePort, change func(x index, address, service string)) {
	changed := false
	for _, p := range ports {
		if p.balancer {
			change(c.standIns.balanced, p.Address.String(), kubeID+id)
			_, here := slices.BinarySearchFunc(c.standIns.here, p.Address, netip.Addr.Compare)
			changed = changed || here
		}
	}
	if changed {
		c.findStandIns()
	}
}

// atNodePort returns a node port with its address at the switch, in a private network. If it does not share
// that address, only clients through the host reach it.
func (c *cache) atNodePort(private netip.Prefix, p pipeline.ServicePort) pipeline.ServicePort {
	var alone bool
	if p.Address, alone = c.standIns.known.NodePort(private, p.Protocol, p.Port); alone {
		p.Shared = false
		p.From &^= pipeline.FromPods
	}
	return p
}
