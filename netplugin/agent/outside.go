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

// OutsideID is the endpoint id of the port to the host, the same as in the original controller.
const OutsideID = "hostcontivh0"

// wantedOutside returns the port through which endpoints reach the outside by the host. Bridged networks have
// none: their router, if any, is a host in the network.
func (c *cache) wantedOutside() (pipeline.Object, error) {
	o, err := c.hostPort()
	if err == nil && c.mode.Bridged() {
		err = fault.New(fault.NotFound, "bridged networks have no way out by the host")
	}
	o.Own, o.Led = c.ownNode()
	o.Ranges = c.kube.ranges
	o.Entered = c.nodePortsVRF()
	return o, err
}

// ownNode returns this node's addresses in Kubernetes, and its ports that forward to services and pods.
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

// hostChanges marks the host's configuration and its port as changed.
func (c *cache) hostChanges() {
	c.hostDirty = true
	c.mark(pipeline.KindOutside, OutsideID)
}

// hostPort returns the host's side of the port, which is the same in every mode.
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

// OutsideWaits reports whether the port to the host has to wait for another endpoint's port: adding a link makes the
// tunnels of a userspace datapath lose packets. So if endpoints have ports already, because an earlier agent on the
// node had no port to the host, it is added together with the next endpoint's. HostChanged wakes the caller then.
func (a *Agent) OutsideWaits(ctx context.Context) (bool, error) {
	if err := a.Ready(); err != nil {
		return false, err
	}
	if _, err := a.cfg.Driver.FindPort(ctx, OutsideID); !fault.Is(err, fault.NotFound) {
		return false, err
	}
	waited := a.outsideWaits.Swap(true) // before the driver's ports are read, so that no new port is missed
	ports := a.cfg.Driver.Ports()
	ours := slices.ContainsFunc(ports, func(p drivers.Port) bool { return p.EndpointID == OutsideID }) // the port has lost its link
	waits := len(ports) > 0 && !ours && !a.cfg.Driver.Status().PortAdded
	a.outsideWaits.CompareAndSwap(true, waits)
	if waits && !waited {
		a.log.Info("the way out by the host comes with the next endpoint on this node")
	}
	return waits, nil
}

// noteAdded wakes the waiting caller of OutsideWaits when a port was added.
func (a *Agent) noteAdded() {
	if a.outsideWaits.Load() && a.cfg.Driver.Status().PortAdded && a.outsideWaits.CompareAndSwap(true, false) {
		a.host.Send()
	}
}

// PrepareOutside creates the link and the port to the host, as PreparePort does.
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
