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

// Interface is an interface of the host at a port of the switch. It belongs to us
// whole: other addresses of it are removed.
type Interface struct {
	Name      string
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	Userspace bool                         // the switch would forward checksums that nobody has filled in
	SameWire  []string                     // links of the host by which it reaches the same machines
	Machines  func() ([]netip.Addr, error) // where others of the cluster are reached, sorted; nil: nobody knows of any
}

// Ensure makes the interface of the host's end of a port, or sets it right, and says whether something had to be
// changed. It is refused, and nothing is changed, if an address that it does not have yet would take from the host what
// that reaches by other links.
func (i Interface) Ensure(port drivers.Port) (changed bool, err error) {
	want := wantedLink{name: i.Name, mac: i.MAC, addresses: i.Addresses, checksumInSoftware: i.Userspace, sameWire: i.SameWire}
	// It is looked at every other second, and has them all but for the first time.
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

// hasAll tells whether the interface is there with all its addresses.
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
