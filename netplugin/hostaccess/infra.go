package hostaccess

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/utils/fault"
)

// maxLinkName is the maximum length of a link's name in the kernel, in bytes.
const maxLinkName = 15

// checkName returns an error if a network's name cannot be the name of an interface, or is that of another interface of
// netplugin (own), which need not be there yet.
func checkName(network string, own ...string) error {
	if len(network) > maxLinkName || strings.ContainsAny(network, "/: ") || network == "." || network == ".." {
		return fault.New(fault.Invalid, "an interface cannot be called %s: want at most %d characters", network, maxLinkName)
	}
	if slices.Contains(own, network) {
		return fault.New(fault.Invalid, "interface %s is netplugin's own, and not one in a network: give the network another name", network)
	}
	return nil
}

// interfaceOf returns the wanted interface of the host in a network, without the settings that depend on the port.
func interfaceOf(at agent.Attachment, n agent.HostNetwork) (wantedLink, error) {
	w := wantedLink{name: n.Network.NetworkName, group: infraGroup}
	var err error
	if w.mac, err = net.ParseMAC(at.Endpoint.MacAddress); err != nil {
		return w, fault.New(fault.Internal, "endpoint %s: hardware address %q: %w", at.Endpoint.ID, at.Endpoint.MacAddress, err)
	}
	for _, family := range []struct {
		address, gateway string
		bits             uint
	}{
		{at.Endpoint.IPAddress, n.Network.Gateway, n.Network.SubnetLen},
		{at.Endpoint.IPv6Address, n.Network.IPv6Gateway, n.Network.IPv6SubnetLen},
	} {
		if family.address == "" {
			continue
		}
		bare, _, _ := strings.Cut(family.address, "/")
		own, err := netip.ParseAddr(bare)
		if err != nil {
			return w, fault.New(fault.Internal, "endpoint %s: address %q: %w", at.Endpoint.ID, family.address, err)
		}
		w.addresses = append(w.addresses, netip.PrefixFrom(own, int(family.bits)))
		if gateway, err := netip.ParseAddr(family.gateway); err == nil && w.name == mastercfg.AccessNetwork {
			w.routes = append(w.routes, routesThrough(gateway, own, n.Reached)...)
		}
	}
	return w, nil
}

// routesThrough returns routes through a gateway to the subnets of its IP family.
func routesThrough(gateway, own netip.Addr, subnets []netip.Prefix) (routes []wantedRoute) {
	for _, subnet := range subnets {
		if subnet.Addr().BitLen() == own.BitLen() {
			routes = append(routes, wantedRoute{to: subnet, via: gateway, src: own})
		}
	}
	return routes
}
