// Package podlink makes a link of the host the interface of a container.
//
// The link is made elsewhere, with its other end in the container's network
// namespace; here that end is renamed, given its hardware address, MTU, IP
// addresses and default routes, and brought up. All of it is netlink
// from a thread inside the namespace: no child processes, no process id of the
// container, and an error of any step is an error of the whole.
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
	"os"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Spec says what the container's interface is to be.
type Spec struct {
	Name      string         `json:"name"`
	MAC       string         `json:"mac"`
	MTU       int            `json:"mtu,omitempty"` // 0: leave it
	Addresses []netip.Prefix `json:"addresses"`
	Gateways  []netip.Addr   `json:"gateways,omitempty"` // default routes, at most one of each family
	// ChecksumInSoftware has the kernel finish checksums before packets leave
	// the container. A userspace datapath takes them off the veth as they are
	// and would forward TCP and UDP with checksums nobody has filled in.
	ChecksumInSoftware bool `json:"checksumInSoftware,omitempty"`
	// Announce has the kernel tell everybody of the addresses whenever the
	// interface comes up.
	Announce bool `json:"announce,omitempty"`
}

// Names the kernel has for the features that leave checksums to the device.
// Segmentation offload depends on them and goes with them.
const (
	txChecksum     = "tx-checksum-ip-generic"
	txChecksumSCTP = "tx-checksum-sctp"
)

// Has tells whether the container has a link of that name.
func (n *Namespace) Has(link string) (has bool, err error) {
	err = n.do(func(nl *netlink.Handle) error {
		_, err := nl.LinkByName(link)
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			return nil
		}
		has = err == nil
		return err
	})
	return has, err
}

// SetUp gives a link of the container its final name, which must be free there,
// its hardware address, MTU and addresses. The link stays down.
func (n *Namespace) SetUp(made string, spec Spec) error {
	return n.do(func(nl *netlink.Handle) error {
		link, err := nl.LinkByName(made)
		if err != nil {
			return fmt.Errorf("find link %s in %s: %w", made, n.path, err)
		}
		if err := nl.LinkSetName(link, spec.Name); err != nil {
			return fmt.Errorf("rename link %s to %s in %s: %w", made, spec.Name, n.path, err)
		}
		if err := setHardware(nl, link, spec); err != nil {
			return err
		}
		if spec.ChecksumInSoftware {
			if err := checksumInSoftware(spec.Name); err != nil {
				return err
			}
		}
		if spec.Announce {
			if err := announce(spec.Name); err != nil {
				return err
			}
		}
		for _, address := range spec.Addresses {
			if err := addAddress(nl, link, spec.Name, address); err != nil {
				return err
			}
		}
		return nil
	})
}

// announce sets the kernel's own announcements: gratuitous ARP requests, and
// neighbour advertisements where there is IPv6.
func announce(name string) error {
	for _, setting := range []string{"ipv4/conf/" + name + "/arp_notify", "ipv6/conf/" + name + "/ndisc_notify"} {
		err := os.WriteFile("/proc/sys/net/"+setting, []byte("1"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("announce addresses of %s: %w", name, err)
		}
	}
	return nil
}

// BringUp lets the container use a link that was set up. It returns the
// gateways in use: where the container already has a default route of the
// family, through another interface, that one stays.
func (n *Namespace) BringUp(spec Spec) (gateways []netip.Addr, err error) {
	err = n.do(func(nl *netlink.Handle) error {
		link, err := nl.LinkByName(spec.Name)
		if err != nil {
			return fmt.Errorf("find link %s in %s: %w", spec.Name, n.path, err)
		}
		if err := nl.LinkSetUp(link); err != nil {
			return fmt.Errorf("bring up %s: %w", spec.Name, err)
		}
		for _, gateway := range spec.Gateways {
			switch err := nl.RouteAdd(defaultRoute(link, gateway, spec.Addresses)); {
			case errors.Is(err, fs.ErrExist):
			case err != nil:
				return fmt.Errorf("add default route via %s to %s: %w", gateway, spec.Name, err)
			default:
				gateways = append(gateways, gateway)
			}
		}
		return nil
	})
	return gateways, err
}

func setHardware(nl *netlink.Handle, link netlink.Link, spec Spec) error {
	mac, err := net.ParseMAC(spec.MAC)
	if err == nil {
		err = nl.LinkSetHardwareAddr(link, mac)
	}
	if err != nil {
		return fmt.Errorf("set hardware address %s of %s: %w", spec.MAC, spec.Name, err)
	}
	if spec.MTU == 0 {
		return nil
	}
	if err := nl.LinkSetMTU(link, spec.MTU); err != nil {
		return fmt.Errorf("set MTU %d of %s: %w", spec.MTU, spec.Name, err)
	}
	return nil
}

func addAddress(nl *netlink.Handle, link netlink.Link, name string, address netip.Prefix) error {
	a := &netlink.Addr{IPNet: ipNet(address)}
	if address.Addr().Is6() {
		if err := enableIPv6(name); err != nil {
			return err
		}
		// The pool gives an address to one endpoint only; without the test
		// for duplicates it is usable at once.
		a.Flags = unix.IFA_F_NODAD
	}
	if err := nl.AddrAdd(link, a); err != nil {
		return fmt.Errorf("add address %s to %s: %w", address, name, err)
	}
	return nil
}

// enableIPv6 undoes what some runtimes do to every new namespace. The file
// shown is that of the calling thread's namespace.
func enableIPv6(name string) error {
	path := "/proc/sys/net/ipv6/conf/" + name + "/disable_ipv6"
	value, err := os.ReadFile(path)
	if err == nil && len(value) > 0 && value[0] == '1' {
		err = os.WriteFile(path, []byte("0"), 0o644)
	}
	if err != nil {
		return fmt.Errorf("enable IPv6 on %s: %w", name, err)
	}
	return nil
}

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

func checksumInSoftware(name string) error {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("open ethtool socket: %w", err)
	}
	defer tool.Close()
	if err := tool.Change(name, map[string]bool{txChecksum: false, txChecksumSCTP: false}); err != nil {
		return fmt.Errorf("turn off checksum offload of %s: %w", name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// HardwareAddress returns the address of a link of our own namespace.
func HardwareAddress(link string) (string, error) {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return "", fmt.Errorf("find link %s: %w", link, err)
	}
	return l.Attrs().HardwareAddr.String(), nil
}
