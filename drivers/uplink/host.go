package uplink

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/inet"
	"github.com/contiv/netplugin/utils/netspace"
)

// belongings are the addresses and routes of the host at a link.
type belongings struct {
	MAC       string            `json:"mac"`
	Index     int               `json:"index"`           // index of the link that has, or had, them
	Local     int               `json:"local,omitempty"` // index of the local port that has all of them; 0: not moved yet
	Addresses []netlink.Addr    `json:"addresses"`
	Routes    []route           `json:"routes"`
	Settings  map[string]string `json:"settings,omitempty"` // sysctls before they were changed
}

func (b belongings) empty() bool { return len(b.Addresses)+len(b.Routes) == 0 }

// without returns b without one IP family.
func (b belongings) without(family int) belongings {
	b.Addresses = slices.DeleteFunc(slices.Clone(b.Addresses), func(a netlink.Addr) bool { return (a.IP.To4() != nil) == (family == netlink.FAMILY_V4) })
	b.Routes = slices.DeleteFunc(slices.Clone(b.Routes), func(r route) bool { return r.Family == family })
	return b
}

// add adds new and changed items.
func (b *belongings) add(found belongings) {
	for _, a := range found.Addresses {
		b.Addresses = append(slices.DeleteFunc(b.Addresses, func(old netlink.Addr) bool { return sameAddress(old, a) }), a)
	}
	for _, r := range found.Routes {
		b.Routes = append(slices.DeleteFunc(b.Routes, func(old route) bool { return sameRoute(old, r) }), r)
	}
}

// split divides the present items into those that a link had, in their present form, and the rest.
func (b belongings) split(had belongings) (theirs, rest belongings) {
	theirs, rest = had, b
	theirs.Addresses, rest.Addresses = divide(b.Addresses, had.Addresses, sameAddress, renewedAddress)
	theirs.Routes, rest.Routes = divide(b.Routes, had.Routes, sameRoute, changedRoute)
	theirs.Routes = withLink(theirs.Routes, b.Index, had.Index)
	return theirs, rest
}

func divide[T any](have, old []T, same func(a, b T) bool, now func(old, have T) T) (known, fresh []T) {
	for _, one := range have {
		if i := slices.IndexFunc(old, func(o T) bool { return same(o, one) }); i >= 0 {
			known = append(known, now(old[i], one))
		} else {
			fresh = append(fresh, one)
		}
	}
	return known, fresh
}

func sameAddress(a, b netlink.Addr) bool { return a.IPNet.String() == b.IPNet.String() }

// renewedAddress returns an address with its new lease, if that is longer. Elapsed time is not a change.
func renewedAddress(old, have netlink.Addr) netlink.Addr {
	old.ValidLft, old.PreferedLft = max(old.ValidLft, have.ValidLft), max(old.PreferedLft, have.PreferedLft)
	return old
}

// changedRoute returns the present form of a route, without the elapsed time. A multipath route, whose links
// are not moved all at once, keeps the old form.
func changedRoute(old, have route) route {
	if len(old.MultiPath) > 0 {
		return old
	}
	if have.Lifetime > 0 {
		have.Lifetime = max(old.Lifetime, have.Lifetime)
	}
	return have
}

// sameRoute reports whether two routes match the same packets. For IPv6 there may be several, one for each
// router, or one with all of them.
func sameRoute(a, b route) bool {
	if a.Family == netlink.FAMILY_V6 && len(a.MultiPath)+len(b.MultiPath) == 0 && !a.Gw.Equal(b.Gw) {
		return false
	}
	return fmt.Sprint(a.Dst) == fmt.Sprint(b.Dst) && a.Table == b.Table && a.Priority == b.Priority && a.Tos == b.Tos && a.Family == b.Family
}

// belongings returns the global addresses of a link and the routes through it, without those that the kernel
// creates for the addresses. For addresses with noprefixroute, such as NetworkManager's, there are none: a
// program has created the route of protocol kernel.
func (l *links) belongings(link netlink.Link) (found belongings, err error) {
	found.MAC, found.Index = link.Attrs().HardwareAddr.String(), link.Attrs().Index
	addresses, err := l.handle.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return found, fmt.Errorf("addresses of link %s: %w", link.Attrs().Name, err)
	}
	for _, a := range addresses {
		if a.IP.IsGlobalUnicast() {
			found.Addresses = append(found.Addresses, a)
		}
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := l.handle.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return found, fmt.Errorf("routes of link %s: %w", link.Attrs().Name, err)
		}
		for _, r := range routes {
			if usesLink(r, link.Attrs().Index) || r.LinkIndex == link.Attrs().Index && found.isPrefixRoute(r) {
				found.Routes = append(found.Routes, route{Route: r})
			}
		}
	}
	return found, l.details(found.Routes)
}

// isPrefixRoute reports whether a route of protocol kernel is to the network of an address with noprefixroute.
func (b belongings) isPrefixRoute(r netlink.Route) bool {
	return r.Protocol == unix.RTPROT_KERNEL && r.Type == unix.RTN_UNICAST && r.Dst != nil && slices.ContainsFunc(b.Addresses, func(a netlink.Addr) bool {
		return a.Flags&unix.IFA_F_NOPREFIXROUTE != 0 && inet.PrefixOf(a.IPNet).Masked() == inet.PrefixOf(r.Dst)
	})
}

// usesLink reports whether a route that the kernel has not created uses a link.
func usesLink(r netlink.Route, link int) bool {
	if r.Protocol == unix.RTPROT_KERNEL || r.Type != unix.RTN_UNICAST {
		return false
	}
	return r.LinkIndex == link || slices.ContainsFunc(r.MultiPath, func(hop *netlink.NexthopInfo) bool { return hop.LinkIndex == link })
}

// maxLabel is the maximum length of an address label in bytes.
const maxLabel = 15

// relabelled returns addresses whose label has the name of another link.
func relabelled(addresses []netlink.Addr, from, to string) []netlink.Addr {
	addresses = slices.Clone(addresses)
	for i, a := range addresses {
		if rest, ok := strings.CutPrefix(a.Label, from); ok {
			if addresses[i].Label = to + rest; len(addresses[i].Label) > maxLabel {
				addresses[i].Label = to
			}
		}
	}
	return addresses
}

// addAddresses sets a link up and adds the addresses of another one. Existing addresses stay.
func (l *links) addAddresses(to netlink.Link, from string, b belongings) error {
	l.step("give")
	if err := l.handle.LinkSetUp(to); err != nil {
		return fmt.Errorf("link %s: set it up: %w", to.Attrs().Name, err)
	}
	var problems []error
	for _, a := range relabelled(b.Addresses, from, to.Attrs().Name) {
		a.LinkIndex, a.Flags = to.Attrs().Index, a.Flags&unix.IFA_F_NOPREFIXROUTE
		switch {
		case a.IP.To4() == nil:
			a.Flags |= unix.IFA_F_NODAD // it has been in use
		case a.Broadcast == nil:
			a.Broadcast = net.IPv4zero // none; otherwise the library would set one
		}
		if err := l.handle.AddrReplace(to, &a); err != nil {
			problems = append(problems, fmt.Errorf("address %s of link %s: %w", a.IPNet, to.Attrs().Name, err))
		}
	}
	return errors.Join(problems...)
}

// addRoutes adds the routes of another link to this one. Those without a gateway come first: they make the
// gateways of the others reachable.
func (l *links) addRoutes(to netlink.Link, b belongings) error {
	l.step("lead")
	routes := withLink(b.Routes, b.Index, to.Attrs().Index)
	slices.SortStableFunc(routes, func(a, b route) int { return hasGateway(a) - hasGateway(b) })
	var problems []error
	for _, r := range routes {
		r.Flags &= unix.RTNH_F_ONLINK
		for i, hop := range r.MultiPath {
			other := *hop
			other.Flags &= unix.RTNH_F_ONLINK
			r.MultiPath[i] = &other
		}
		if err := l.addRoute(r); err != nil && !errors.Is(err, fs.ErrExist) {
			problems = append(problems, fmt.Errorf("route %s: %w", r.Route, err))
		}
	}
	return errors.Join(problems...)
}

// withLink returns copies of routes with one link replaced by another.
func withLink(routes []route, from, to int) []route {
	routes = slices.Clone(routes)
	for i := range routes {
		r := &routes[i]
		if r.LinkIndex == from {
			r.LinkIndex = to
		}
		r.MultiPath = slices.Clone(r.MultiPath)
		for i, hop := range r.MultiPath {
			if hop.LinkIndex == from {
				other := *hop
				other.LinkIndex = to
				r.MultiPath[i] = &other
			}
		}
	}
	return routes
}

func hasGateway(r route) int {
	if r.Gw != nil || r.Via != nil || len(r.MultiPath) > 0 {
		return 1
	}
	return 0
}

// removeBelongings removes addresses and routes from a link. It deletes routes in their present form: a
// multipath route has changed with each of its links that was moved.
func (l *links) removeBelongings(link netlink.Link, b belongings) error {
	l.step("strip")
	there, err := l.belongings(link)
	if err != nil {
		return err
	}
	var problems []error
	theirs, _ := divide(there.Routes, b.Routes, sameRoute, func(_, have route) route { return have })
	for _, r := range theirs {
		err := l.handle.RouteDel(&r.Route)
		if errors.Is(err, unix.ESRCH) && r.NextHop != 0 {
			err = fmt.Errorf("it leads out by the nexthop object %d", r.NextHop)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			problems = append(problems, fmt.Errorf("route %s: %w", r.Route, err))
		}
	}
	for _, a := range b.Addresses {
		if err := l.handle.AddrDel(link, &netlink.Addr{IPNet: a.IPNet, Peer: a.Peer}); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			problems = append(problems, fmt.Errorf("address %s of link %s: %w", a.IPNet, link.Attrs().Name, err))
		}
	}
	return errors.Join(problems...)
}

// portSettings returns sysctls below /proc/sys/net that keep the host's own stack off a link that is a port. With
// the userspace datapath the kernel still receives there, and would process each packet for the host twice.
func portSettings(link string) map[string]string {
	return map[string]string{"ipv4/conf/" + link + "/rp_filter": "1", "ipv6/conf/" + link + "/disable_ipv6": "1"}
}

// get returns the values of sysctls. A kernel without IPv6 has fewer.
func (l *links) get(settings map[string]string) (values map[string]string, err error) {
	values = map[string]string{}
	err = netspace.In(l.ns, func() error {
		for name := range settings {
			value, err := os.ReadFile(settingPath(name))
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return fmt.Errorf("setting %s: %w", name, err)
			default:
				values[name] = strings.TrimSpace(string(value))
			}
		}
		return nil
	})
	return values, err
}

// set writes the sysctls that the kernel has.
func (l *links) set(settings map[string]string) error {
	l.step("set")
	return netspace.In(l.ns, func() error {
		for name, value := range settings {
			if err := os.WriteFile(settingPath(name), []byte(value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("setting %s=%s: %w", name, value, err)
			}
		}
		return nil
	})
}

func settingPath(name string) string { return filepath.Join("/proc/sys/net", name) }

// texts returns a text to compare findings of different times.
func (b belongings) texts() string {
	var texts []string
	for _, a := range b.Addresses {
		texts = append(texts, a.IPNet.String())
	}
	for _, r := range b.Routes {
		texts = append(texts, fmt.Sprint(r.Dst, r.Gw, r.Via, r.MultiPath, r.Table, r.Priority, r.Tos))
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n")
}

// addressTexts returns the addresses for messages.
func (b belongings) addressTexts() string {
	var texts []string
	for _, a := range b.Addresses {
		texts = append(texts, a.IPNet.String())
	}
	for _, r := range b.Routes {
		if r.Dst == nil || r.Dst.IP.IsUnspecified() {
			texts = append(texts, "the default route")
		}
	}
	return strings.Join(texts, ", ")
}
