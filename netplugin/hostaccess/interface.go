package hostaccess

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/utils/inet"
)

// Interface is an interface of the host on a port of the switch. Netplugin manages all of it: other addresses are
// removed.
type Interface struct {
	Name      string
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	Userspace bool                         // userspace switch: the kernel has to complete checksums
	SameWire  []string                     // links of the host to the same machines
	Machines  func() ([]netip.Addr, error) // addresses of the cluster's machines, sorted; nil: none
}

// Ensure configures the interface at the host's end of a port, and returns whether it had to change anything. If a
// new address would take over destinations that the host reaches by other links, it changes nothing and returns an
// error.
func (i Interface) Ensure(port drivers.Port) (changed bool, err error) {
	renamed, err := regain(port, i.Name)
	if err != nil {
		return false, err
	}
	defer func() { changed = changed || renamed }()
	want := wantedLink{name: i.Name, mac: i.MAC, addresses: i.Addresses, checksumInSoftware: i.Userspace, sameWire: i.SameWire}
	// Ensure is called every other second; only the first time an address may be missing.
	if all, err := i.hasAll(); err != nil {
		return false, err
	} else if !all {
		var machines []netip.Addr
		if i.Machines != nil {
			if machines, err = i.Machines(); err != nil {
				return false, err
			}
		}
		if want, err = want.spared(machines); err != nil {
			return false, err
		}
	}
	return want.ensure(port, new(own))
}

// hasAll reports whether the interface exists with all its addresses.
func (i Interface) hasAll() (bool, error) {
	link, err := netlink.LinkByName(i.Name)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("interface %s: %w", i.Name, err)
	}
	has, err := netlink.AddrList(link, unix.AF_UNSPEC)
	if err != nil {
		return false, fmt.Errorf("interface %s: addresses: %w", i.Name, err)
	}
	return !slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool {
		return !slices.ContainsFunc(has, func(a netlink.Addr) bool { return inet.PrefixOf(a.IPNet) == p })
	}), nil
}
