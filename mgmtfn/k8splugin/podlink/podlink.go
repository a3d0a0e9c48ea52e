// Package podlink makes a link of the host the interface of a container.
//
// The link is made elsewhere, with its other end in the container's network
// namespace; here that end becomes the interface, in three steps, as what they
// need becomes known one after the other: it is taken (name, MTU, features),
// set up (hardware address, IP addresses), and brought up (default routes). All
// of it is netlink from inside the namespace: no child processes, no process id
// of the container, and an error of any step is an error of the whole.
//
// Where the network is one of our own making, no gratuitous ARP or neighbour
// advertisement is sent: the fabric learns addresses from the store, and a hardware
// address follows from its IP address, so nobody can remember an old one. In a VLAN,
// switches have to learn at which port it is now.
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

// Spec says what the container's interface is to be.
type Spec struct {
	Name      string         `json:"name"`
	MAC       string         `json:"mac"`
	MTU       int            `json:"mtu,omitempty"` // 0: leave it
	Addresses []netip.Prefix `json:"addresses"`
	Gateways  []netip.Addr   `json:"gateways,omitempty"` // default routes, at most one of each family
	OnLink    []netip.Addr   `json:"onLink,omitempty"`   // hosts that are reached directly, although no subnet has them
	// ChecksumInSoftware has the kernel finish checksums before packets leave
	// the container. A userspace datapath takes them off the veth as they are
	// and would forward TCP and UDP with checksums nobody has filled in.
	ChecksumInSoftware bool `json:"checksumInSoftware,omitempty"`
	// Announce has the kernel tell everybody of the addresses whenever the
	// interface comes up.
	Announce bool `json:"announce,omitempty"`
}

// ErrNoLink says that the container has no link of the name, any more or yet.
var ErrNoLink = errors.New("no such link in the container")

// Interface is a link on its way to be a container's interface. It holds a socket
// in the container's namespace, until Close.
type Interface struct {
	netns *Namespace
	nl    *netlink.Handle
	link  netlink.Link
	name  string
}

// Take makes a link of the container the interface of a name, which must be free
// there, and gives it what does not depend on its addresses: MTU and features, and that
// it takes nothing that routers advertise. The link stays down. A link that is not there
// is ErrNoLink.
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

// SetUp gives the interface its hardware address and its IP addresses. It stays
// down.
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
			// The pool gives an address to one endpoint only; without the test
			// for duplicates it is usable at once.
			a.Flags = unix.IFA_F_NODAD
		}
		if err := i.nl.AddrAdd(i.link, a); err != nil {
			return fmt.Errorf("add address %s to %s: %w", address, i.name, err)
		}
	}
	return nil
}

// BringUp lets the container use its interface. It returns the routes in use, as they
// are in the specification: where the container already has a default route of the
// family, or one to a host, through another interface, that one stays.
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

// Close gives up the socket, whatever has become of the link.
func (i *Interface) Close() { i.nl.Close() }

// defaultRoute leads through the gateway, which counts as a neighbour even if
// it lies outside of every subnet of the interface.
func defaultRoute(link netlink.Link, gateway netip.Addr, addresses []netip.Prefix) *netlink.Route {
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}
	for _, a := range addresses {
		if a.Contains(gateway) {
			route.Flags = 0
		}
	}
	return route
}

// HardwareAddress returns the address of a link of our own namespace.
func HardwareAddress(link string) (string, error) {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return "", fmt.Errorf("find link %s: %w", link, err)
	}
	return l.Attrs().HardwareAddr.String(), nil
}
