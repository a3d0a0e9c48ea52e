package agent

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// OutsideID is the endpoint id of the port to the host, as operators of the original
// controller know it.
const OutsideID = "hostcontivh0"

// wantedOutside is the way out by the host. Bridged networks have none: their router
// is a host of the network, or there is none.
func (c *cache) wantedOutside() (pipeline.Object, error) {
	o, err := c.hostPort()
	if err == nil && c.mode.Bridged() {
		err = fault.New(fault.NotFound, "bridged networks have no way out by the host")
	}
	o.Own, o.Led = c.ownNode()
	o.Entered = c.nodePortsVRF()
	return o, err
}

// ownNode are the addresses that this node has in Kubernetes, and its ports that lead to services and pods.
func (c *cache) ownNode() (own []netip.Addr, led []pipeline.PortRange) {
	own = slices.SortedFunc(slices.Values(c.kube.nodes[c.host].Addresses), netip.Addr.Compare)
	if own == nil {
		return nil, nil
	}
	for _, p := range c.entrances().NodePorts {
		led = append(led, pipeline.PortRange{Protocol: p.Protocol, First: p.Port, Last: p.Port})
	}
	for uid, pod := range c.pods {
		if !c.isAttached(uid) {
			continue
		}
		for _, p := range pod.HostPorts {
			led = append(led, pipeline.PortRange{Protocol: inet.TransportNumber(p.Protocol), First: p.Port, Last: p.Port})
		}
	}
	slices.SortFunc(led, func(a, b pipeline.PortRange) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.First, b.First))
	})
	return slices.Compact(own), slices.Compact(led)
}

// hostChanges has the host looked at, and what is known of it at its port.
func (c *cache) hostChanges() {
	c.hostDirty = true
	c.mark(pipeline.KindOutside, OutsideID)
}

// hostPort is the host's side of it, which is there in every mode.
func (c *cache) hostPort() (pipeline.Outside, error) {
	prefix, err := netip.ParsePrefix(c.global.PvtSubnet)
	switch {
	case !c.outside || c.global.PvtSubnet == "":
		return pipeline.Outside{}, fault.New(fault.NotFound, "endpoints do not leave by this host")
	case err != nil || !prefix.Addr().Is4() || prefix.Bits() != 16:
		return pipeline.Outside{}, fault.New(fault.Invalid, "private subnet %q is not an IPv4 prefix of 16 bits", c.global.PvtSubnet)
	}
	o := pipeline.Outside{ID: OutsideID, MAC: [6]byte{2, 2}, Prefix: prefix.Masked(), Prefix6: pipeline.OutsidePrefix6()}
	own := pipeline.OutsideAddress(o.Prefix, pipeline.OutsideHost).As4()
	copy(o.MAC[2:], own[:])
	return o, nil
}

// OutsideWaits tells whether the port to the host has to wait for another endpoint's:
// a link that comes costs the tunnels of a userspace datapath packets. So where
// endpoints have ports already, on a node whose earlier agent had no way out, its
// link comes with the next endpoint's. HostChanged tells of that.
func (a *Agent) OutsideWaits(ctx context.Context) (bool, error) {
	if err := a.Ready(); err != nil {
		return false, err
	}
	if _, err := a.cfg.Driver.FindPort(ctx, OutsideID); !fault.Is(err, fault.NotFound) {
		return false, err
	}
	waited := a.outsideWaits.Swap(true) // before the driver is asked, so that no port comes unheard
	ports := a.cfg.Driver.Ports()
	ours := slices.ContainsFunc(ports, func(p drivers.Port) bool { return p.EndpointID == OutsideID }) // its link has gone
	waits := len(ports) > 0 && !ours && !a.cfg.Driver.Status().PortAdded
	a.outsideWaits.CompareAndSwap(true, waits)
	if waits && !waited {
		a.log.Info("the way out by the host comes with the next endpoint on this node")
	}
	return waits, nil
}

// noteAdded wakes who waits for an endpoint's port.
func (a *Agent) noteAdded() {
	if a.outsideWaits.Load() && a.cfg.Driver.Status().PortAdded && a.outsideWaits.CompareAndSwap(true, false) {
		a.host.Send()
	}
}

// PrepareOutside makes the link and the port to the host; PreparePort tells the rest.
func (a *Agent) PrepareOutside(ctx context.Context) (drivers.Port, error) {
	if err := a.Ready(); err != nil {
		return drivers.Port{}, err
	}
	unlock, err := a.ports.Lock(ctx, OutsideID)
	if err != nil {
		return drivers.Port{}, explain(err, "port %s", OutsideID)
	}
	defer unlock()
	a.claim(OutsideID)
	return a.cfg.Driver.AddPort(ctx, pipeline.VXLAN, OutsideID, 0)
}
