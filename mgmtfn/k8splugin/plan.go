package k8splugin

import (
	"encoding/json"
	"net"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniresult"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// interfacePlan is what an endpoint record means for the container's interface.
type interfacePlan struct {
	link     podlink.Spec
	hostMAC  string
	gateways []netip.Addr // of the networks, whether or not a route leads there
}

// planInterface derives addresses, gateways and MTU from what the master
// allocated. A network without a gateway is an isolated segment: its
// containers get no default route.
func planInterface(c *call, port drivers.Port, ep mastercfg.CfgEndpointState, nw mastercfg.CfgNetworkState, netdev bool) (*interfacePlan, error) {
	mac, err := net.ParseMAC(ep.MacAddress)
	if err != nil {
		return nil, fault.New(fault.Internal, "endpoint %s: hardware address %q: %w", ep.ID, ep.MacAddress, err)
	}
	p := &interfacePlan{}
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
			return nil, err
		}
	}
	if len(p.link.Addresses) == 0 {
		return nil, fault.New(fault.Internal, "endpoint %s has no address", ep.ID)
	}
	mtu := port.MTU
	if c.conf.MTU != 0 {
		if mtu != 0 && c.conf.MTU > mtu {
			return nil, fault.New(fault.Invalid, "network configuration %q: mtu %d is above the %d bytes the datapath carries", c.conf.Name, c.conf.MTU, mtu)
		}
		mtu = c.conf.MTU
	}
	p.link.Name, p.link.MAC, p.link.MTU = c.IfName, mac.String(), mtu
	p.link.Gateways = p.gateways
	p.link.ChecksumInSoftware = netdev
	p.link.Announce = nw.PktTagType == "vlan" // others have to learn where it is
	return p, nil
}

func (p *interfacePlan) addFamily(endpoint, address string, bits uint, gateway string) error {
	bare, _, _ := strings.Cut(address, "/")
	addr, err := netip.ParseAddr(bare)
	if err != nil {
		return fault.New(fault.Internal, "endpoint %s: address %q: %w", endpoint, address, err)
	}
	prefix := netip.PrefixFrom(addr, int(bits))
	if bits == 0 || !prefix.IsValid() {
		return fault.New(fault.Internal, "endpoint %s: address %s: subnet length %d", endpoint, addr, bits)
	}
	p.link.Addresses = append(p.link.Addresses, prefix)
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

// result is our part of the CNI result, after the interface has been configured.
func (p *interfacePlan) result(c *call, port drivers.Port) (json.RawMessage, error) {
	return json.Marshal(cniresult.Build(cniresult.Facts{
		HostLink:        port.HostLink,
		HostMAC:         p.hostMAC,
		Name:            p.link.Name,
		MAC:             p.link.MAC,
		Netns:           c.Netns,
		MTU:             p.link.MTU,
		Addresses:       p.link.Addresses,
		NetworkGateways: p.gateways,
		DefaultRoutes:   p.link.Gateways,
		DNS:             c.conf.Resolver(),
	}))
}
