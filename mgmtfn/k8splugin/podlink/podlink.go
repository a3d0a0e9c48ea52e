// Package podlink turns a link of the host into the interface of a container.
//
// The link is made elsewhere, with its other end in the container's network namespace; here that end becomes the
// interface, in three steps, since their parameters become known one after the other: it is taken (name, MTU,
// features), set up (hardware address, IP addresses), and brought up (default routes). All of it is netlink from
// inside the namespace, without child processes and without the container's process id; an error of any step fails
// the whole.
//
// In overlay networks no gratuitous ARP or neighbour advertisement is sent: the nodes learn addresses from the
// store, and a hardware address is derived from its IP address, so no stale one can be cached. In a VLAN, switches
// have to learn the port of the address.
package podlink

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/inet"
)

// Spec is the wanted state of the container's interface.
type Spec struct {
	Name      string         `json:"name"`
	MAC       string         `json:"mac"`
	MTU       int            `json:"mtu,omitempty"` // 0: unchanged
	Addresses []netip.Prefix `json:"addresses"`
	Gateways  []netip.Addr   `json:"gateways,omitempty"` // of default routes, at most one of each IP family
	OnLink    []netip.Addr   `json:"onLink,omitempty"`   // hosts reached directly, in no subnet of the interface
	// ChecksumInSoftware makes the kernel complete checksums before packets leave the container. A userspace datapath
	// receives packets from the veth with partial checksums and would forward TCP and UDP without valid ones.
	ChecksumInSoftware bool `json:"checksumInSoftware,omitempty"`
	// Announce makes the kernel announce the addresses whenever the interface comes up.
	Announce bool `json:"announce,omitempty"`
}

// ErrNoLink is the error if the container has no link of the name.
var ErrNoLink = errors.New("no such link in the container")

// Interface is a link that becomes a container's interface. It holds a socket in the container's namespace, until
// Close.
type Interface struct {
	netns *Namespace
	nl    *netlink.Handle
	link  netlink.Link
	name  string
}

// Take renames a link of the container to the name in spec, which must be unused there, and applies the settings
// that do not depend on addresses: MTU, features, and that router advertisements are ignored. The link stays down.
// If it does not exist, the error is ErrNoLink.
func (n *Namespace) Take(made string, spec Spec) (*Interface, error) {
	i := &Interface{netns: n, name: spec.Name}
	err := n.run(func() (err error) {
		if i.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink socket in %s: %w", n.path, err)
		}
		if err := i.take(made, spec); err != nil {
			i.Close()
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return i, nil
}

func (i *Interface) take(made string, spec Spec) (err error) {
	i.link, err = i.nl.LinkByName(made)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return fmt.Errorf("find link %s in %s: %w", made, i.netns.path, ErrNoLink)
	}
	if err != nil {
		return fmt.Errorf("find link %s in %s: %w", made, i.netns.path, err)
	}
	if err := i.nl.LinkSetName(i.link, i.name); err != nil {
		return fmt.Errorf("rename link %s to %s in %s: %w", made, i.name, i.netns.path, err)
	}
	if err := ignoreRouters(i.name); err != nil {
		return err
	}
	if spec.MTU != 0 && spec.MTU != i.link.Attrs().MTU {
		if err := i.nl.LinkSetMTU(i.link, spec.MTU); err != nil {
			return fmt.Errorf("set MTU %d of %s: %w", spec.MTU, i.name, err)
		}
	}
	if spec.ChecksumInSoftware {
		return checksumInSoftware(i.name)
	}
	return nil
}

// SetUp sets the hardware address and the IP addresses of the interface. It stays down.
func (i *Interface) SetUp(spec Spec) error {
	mac, err := net.ParseMAC(spec.MAC)
	if err == nil {
		err = i.nl.LinkSetHardwareAddr(i.link, mac)
	}
	if err != nil {
		return fmt.Errorf("set hardware address %s of %s: %w", spec.MAC, i.name, err)
	}
	if err := i.configure(spec); err != nil {
		return err
	}
	for _, address := range spec.Addresses {
		a := &netlink.Addr{IPNet: inet.IPNet(address)}
		if address.Addr().Is6() {
			// The pool assigns an address to one endpoint only; without duplicate address detection it is usable at
			// once.
			a.Flags = unix.IFA_F_NODAD
		}
		if err := i.nl.AddrAdd(i.link, a); err != nil {
			return fmt.Errorf("add address %s to %s: %w", address, i.name, err)
		}
	}
	return nil
}

// BringUp sets the interface up and adds its routes. It returns the routes in use, out of those of spec: where the
// container already has a default route of the IP family, or a route to a host, by another interface, that is
// kept.
func (i *Interface) BringUp(spec Spec) (gateways, onLink []netip.Addr, err error) {
	if err := i.nl.LinkSetUp(i.link); err != nil {
		return nil, nil, fmt.Errorf("bring up %s: %w", i.name, err)
	}
	for _, gateway := range spec.Gateways {
		switch err := i.nl.RouteAdd(defaultRoute(i.link, gateway, spec.Addresses)); {
		case errors.Is(err, fs.ErrExist):
		case err != nil:
			return nil, nil, fmt.Errorf("add default route via %s to %s: %w", gateway, i.name, err)
		default:
			gateways = append(gateways, gateway)
		}
	}
	for _, host := range spec.OnLink {
		route := netlink.Route{LinkIndex: i.link.Attrs().Index, Dst: inet.IPNet(inet.Host(host)), Scope: netlink.SCOPE_LINK}
		switch err := i.nl.RouteAdd(&route); {
		case errors.Is(err, fs.ErrExist):
		case err != nil:
			return nil, nil, fmt.Errorf("add route to %s by %s: %w", host, i.name, err)
		default:
			onLink = append(onLink, host)
		}
	}
	return gateways, onLink, nil
}

// Close closes the socket, whatever the state of the link.
func (i *Interface) Close() { i.nl.Close() }

// defaultRoute returns a route by the gateway, which counts as a neighbour even if it is in no subnet of the
// interface.
func defaultRoute(link netlink.Link, gateway netip.Addr, addresses []netip.Prefix) *netlink.Route {
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}
	for _, a := range addresses {
		if a.Contains(gateway) {
			route.Flags = 0
		}
	}
	return route
}

// HardwareAddress returns the hardware address of a link in the agent's namespace.
func HardwareAddress(link string) (string, error) {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return "", fmt.Errorf("find link %s: %w", link, err)
	}
	return l.Attrs().HardwareAddr.String(), nil
}
