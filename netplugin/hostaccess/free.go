package hostaccess

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// isFree returns an error if the host uses addresses of the private subnet for something else: on another
// interface, or in a route by another interface.
func isFree(private netip.Prefix) error {
	names, err := linkNames()
	if err != nil {
		return err
	}
	all, err := netlink.AddrList(nil, unix.AF_INET)
	if err != nil {
		return fmt.Errorf("addresses of the host: %w", err)
	}
	for _, a := range all {
		if p := inet.PrefixOf(a.IPNet); p.Overlaps(private) && names[a.LinkIndex] != outsideLink {
			return taken(private, "interface %s has address %s", names[a.LinkIndex], p)
		}
	}
	var problem error
	anyTable := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
	err = netlink.RouteListFilteredIter(unix.AF_INET, anyTable, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
		if uses(r, private) && names[r.LinkIndex] != outsideLink {
			problem = taken(private, "there is a route to %s in table %d", inet.PrefixOf(r.Dst), r.Table)
		}
		return problem == nil
	})
	if err != nil {
		return fmt.Errorf("routes of the host: %w", err)
	}
	return problem
}

// uses reports whether a route covers addresses of the private subnet. Default routes do not count, nor do wider
// routes of type unreachable or similar, which hosts have for private addresses.
func uses(r netlink.Route, private netip.Prefix) bool {
	to := inet.PrefixOf(r.Dst)
	if !to.IsValid() || to.Bits() == 0 || !to.Overlaps(private) {
		return false
	}
	return r.Type == unix.RTN_UNICAST || to.Bits() >= private.Bits()
}

func taken(private netip.Prefix, why string, args ...any) error {
	return fault.New(fault.Conflict, "private subnet %s: %s: set another one (netctl global set --private-subnet)", private, fmt.Sprintf(why, args...))
}

// linkNames returns the names of the host's interfaces, by index.
func linkNames() (map[int]string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("interfaces of the host: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	return names, nil
}
