package k8splugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniresult"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/utils/fault"
)

// podInterface is the container's interface while ADD configures it.
type podInterface struct {
	*podlink.Interface
	port     drivers.Port
	hostMAC  string // of the host's end of the veth pair
	spec     podlink.Spec
	gateways []netip.Addr // of the network, with or without a default route
}

// prepare makes the veth pair and the switch port, and configures the container's end as far as
// that is possible without its addresses. If a port exists whose link is missing or
// already renamed, it is a leftover without a checkpoint,
// such as after the loss of the state directory, and is replaced.
func (s *Server) prepare(ctx context.Context, c *call, endpointID string, netns *podlink.Namespace) (*podInterface, error) {
	p, err := s.takePort(ctx, c, endpointID, netns)
	if !errors.Is(err, podlink.ErrNoLink) {
		return p, err
	}
	if gone := s.Datapath.Detach(ctx, endpointID); gone != nil {
		return nil, failed(stepDatapath, fmt.Errorf("replace a port: %w: %w", err, gone))
	}
	return s.takePort(ctx, c, endpointID, netns)
}

func (s *Server) takePort(ctx context.Context, c *call, endpointID string, netns *podlink.Namespace) (*podInterface, error) {
	port, err := s.Datapath.PreparePort(ctx, endpointID, netns.FD())
	if err != nil {
		return nil, failed(stepDatapath, err)
	}
	p := &podInterface{port: port, spec: podlink.Spec{Name: c.IfName, MTU: port.MTU, ChecksumInSoftware: s.Netdev()}}
	if mtu := c.conf.MTU; mtu != 0 {
		if port.MTU != 0 && mtu > port.MTU {
			return nil, failed(stepPod, fault.New(fault.Invalid, "network configuration %q: mtu %d is above the %d bytes the datapath carries", c.conf.Name, mtu, port.MTU))
		}
		p.spec.MTU = mtu
	}
	if p.hostMAC, err = podlink.HardwareAddress(port.HostLink); err == nil {
		p.Interface, err = netns.Take(port.PodLink, p.spec)
	}
	if err != nil {
		return nil, failed(stepPod, err)
	}
	return p, nil
}

// close closes the interface's handles; p may be nil.
func (p *podInterface) close() {
	if p != nil {
		p.Close()
	}
}

// plan sets addresses, gateways and MAC address from the records of endpoint and network. A network
// without a gateway is an isolated segment: its containers get no default route.
func (p *podInterface) plan(at Attachment) error {
	ep, nw := at.Endpoint, at.Network
	mac, err := net.ParseMAC(ep.MacAddress)
	if err != nil {
		return fault.New(fault.Internal, "endpoint %s: hardware address %q: %w", ep.ID, ep.MacAddress, err)
	}
	for _, family := range []struct {
		address, gateway string
		bits             uint
	}{
		{ep.IPAddress, nw.Gateway, nw.SubnetLen},
		{ep.IPv6Address, nw.IPv6Gateway, nw.IPv6SubnetLen},
	} {
		if family.address == "" {
			continue
		}
		if err := p.addFamily(ep.ID, family.address, family.bits, family.gateway); err != nil {
			return err
		}
	}
	if len(p.spec.Addresses) == 0 {
		return fault.New(fault.Internal, "endpoint %s has no address", ep.ID)
	}
	p.spec.MAC = mac.String()
	p.spec.Gateways = p.gateways
	p.spec.Announce = nw.PktTagType == "vlan" // physical switches and routers learn its location from that
	for _, server := range at.NameServers {
		if !slices.Contains(p.gateways, server) {
			p.spec.OnLink = append(p.spec.OnLink, server)
		}
	}
	return nil
}

// leastMTU6 is the least MTU of a link with IPv6 addresses (RFC 8200, 5).
const leastMTU6 = 1280

func (p *podInterface) addFamily(endpoint, address string, bits uint, gateway string) error {
	bare, _, _ := strings.Cut(address, "/")
	addr, err := netip.ParseAddr(bare)
	if err != nil {
		return fault.New(fault.Internal, "endpoint %s: address %q: %w", endpoint, address, err)
	}
	prefix := netip.PrefixFrom(addr, int(bits))
	if bits == 0 || !prefix.IsValid() {
		return fault.New(fault.Internal, "endpoint %s: address %s: subnet length %d", endpoint, addr, bits)
	}
	if mtu := p.spec.MTU; addr.Is6() && mtu != 0 && mtu < leastMTU6 {
		return fault.New(fault.Invalid, "endpoint %s: address %s: the interface would have an MTU of %d, and IPv6 needs %d", endpoint, addr, mtu, leastMTU6)
	}
	p.spec.Addresses = append(p.spec.Addresses, prefix)
	if gateway == "" {
		return nil
	}
	via, err := netip.ParseAddr(gateway)
	if err != nil {
		return fault.New(fault.Internal, "endpoint %s: gateway %q: %w", endpoint, gateway, err)
	}
	p.gateways = append(p.gateways, via)
	return nil
}

// bringUp sets the interface up with its addresses and routes, and waits until the host's end has carrier:
// from then on the switch can send to it.
func (p *podInterface) bringUp(ctx context.Context) (err error) {
	if p.spec.Gateways, p.spec.OnLink, err = p.BringUp(p.spec); err != nil {
		return err
	}
	return podlink.AwaitUp(ctx, p.port.HostLink)
}

// record completes the checkpoint of an interface that is up.
func (p *podInterface) record(c *call, r *attachment.Record, at Attachment) (err error) {
	r.HostLink, r.Link, r.Stored = p.port.HostLink, p.spec, storedFrom(at)
	r.Result, err = p.result(c, at)
	return err
}

// result returns this plugin's CNI result, before those of earlier plugins of a chain are merged into it.
func (p *podInterface) result(c *call, at Attachment) (json.RawMessage, error) {
	return json.Marshal(cniresult.Build(cniresult.Facts{
		HostLink:        p.port.HostLink,
		HostMAC:         p.hostMAC,
		Name:            p.spec.Name,
		MAC:             p.spec.MAC,
		Netns:           c.Netns,
		MTU:             p.spec.MTU,
		Addresses:       p.spec.Addresses,
		NetworkGateways: p.gateways,
		DefaultRoutes:   p.spec.Gateways,
		OnLink:          p.spec.OnLink,
		DNS:             resolver(c.conf.Resolver(), at),
	}))
}
