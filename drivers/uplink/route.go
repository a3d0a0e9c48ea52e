package uplink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/netspace"
)

// route is a route of the host. A route from an IPv6 router advertisement expires unless the router repeats it.
type route struct {
	netlink.Route
	Lifetime uint32 `json:",omitempty"` // seconds; 0: no limit
	NextHop  uint32 `json:"-"`          // nexthop object of the kernel; 0: none
}

// byNextHop names a route through a nexthop object of the kernel: it cannot be moved to another link. nil: there is
// none.
func (b belongings) byNextHop() error {
	for _, r := range b.Routes {
		if r.NextHop != 0 {
			return fmt.Errorf("route %s leads out by the nexthop object %d, which is not moved", r.Route, r.NextHop)
		}
	}
	return nil
}

// hasRouterAdvertised reports whether an address or route is from a router advertisement.
func (b belongings) hasRouterAdvertised() bool {
	return slices.ContainsFunc(b.Routes, func(r route) bool { return r.Protocol == unix.RTPROT_RA })
}

// versionSettings returns the sysctls for IPv6 on a link, and for router advertisements.
func versionSettings(link string) map[string]string {
	settings := map[string]string{}
	for _, name := range []string{"disable_ipv6", "accept_ra", "autoconf"} {
		settings["ipv6/conf/"+link+"/"+name] = ""
	}
	return settings
}

// routerSettings make the kernel accept router advertisements at a link, even if the host forwards packets.
// Otherwise routes that were learned at the uplink, by the kernel or a daemon, would expire at the local port.
func routerSettings(link string) map[string]string {
	return map[string]string{"ipv6/conf/" + link + "/accept_ra": "2"}
}

// Parts of rtnetlink messages that the library does not know, see linux/rtnetlink.h.
const (
	rtaExpires     = 23
	rtaNextHop     = 30
	expiresAt      = 8   // in struct rta_cacheinfo
	ticksPerSecond = 100 // of that field, USER_HZ
)

// details reads the fields of routes that the library does not parse.
func (l *links) details(routes []route) error {
	known, err := l.dumpDetails()
	if err != nil {
		return fmt.Errorf("details of routes: %w", err)
	}
	for i, r := range routes {
		about := known[keyOf(r)]
		routes[i].Lifetime, routes[i].NextHop = about.lifetime, about.nextHop
	}
	return nil
}

// routeDetails are these fields.
type routeDetails struct{ lifetime, nextHop uint32 }

// routeKey identifies a route.
type routeKey struct {
	to, via                       string
	family, link, table, priority int
}

func keyOf(r route) routeKey {
	to := ""
	if r.Dst != nil {
		to = r.Dst.String()
	}
	if to == "::/0" || to == "0.0.0.0/0" {
		to = ""
	}
	via := r.Gw.To16()
	if r.Family == netlink.FAMILY_V4 {
		via = r.Gw.To4()
	}
	return routeKey{to, string(via), r.Family, r.LinkIndex, r.Table, r.Priority}
}

// dumpDetails returns the details of the routes that have any.
func (l *links) dumpDetails() (known map[routeKey]routeDetails, err error) {
	known = map[routeKey]routeDetails{}
	err = netspace.In(l.ns, func() error {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			request := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
			message := nl.NewRtMsg()
			message.Family = family
			request.AddData(message)
			answers, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
			if err != nil {
				return err
			}
			for _, answer := range answers {
				key, about, err := readDetails(answer)
				if err != nil {
					return err
				}
				if about != (routeDetails{}) {
					known[key] = about
				}
			}
		}
		return nil
	})
	return known, err
}

func readDetails(answer []byte) (key routeKey, about routeDetails, err error) {
	message := nl.DeserializeRtMsg(answer)
	attrs, err := nl.ParseRouteAttr(answer[message.Len():])
	if err != nil {
		return key, about, err
	}
	key.family, key.table = int(message.Family), int(message.Table)
	for _, a := range attrs {
		number := 0
		if len(a.Value) >= 4 {
			number = int(binary.NativeEndian.Uint32(a.Value))
		}
		switch a.Attr.Type {
		case unix.RTA_DST:
			key.to = (&net.IPNet{IP: a.Value, Mask: net.CIDRMask(int(message.Dst_len), 8*len(a.Value))}).String()
		case unix.RTA_GATEWAY:
			key.via = string(a.Value)
		case unix.RTA_OIF:
			key.link = number
		case unix.RTA_PRIORITY:
			key.priority = number
		case unix.RTA_TABLE:
			key.table = number
		case unix.RTA_CACHEINFO:
			if ticks := int32(binary.NativeEndian.Uint32(a.Value[expiresAt:])); ticks > 0 {
				about.lifetime = max(uint32(ticks)/ticksPerSecond, 1)
			}
		case rtaNextHop:
			about.nextHop = uint32(number)
		}
	}
	return key, about, nil
}

// addRoute adds a route, with its lifetime. A multipath route with a lifetime becomes several routes,
// as they were advertised.
func (l *links) addRoute(r route) error {
	if r.Lifetime == 0 {
		return l.handle.RouteAdd(&r.Route)
	}
	var problems []error
	for _, hop := range r.MultiPath {
		one := r
		one.MultiPath, one.Gw, one.LinkIndex, one.Flags = nil, hop.Gw, hop.LinkIndex, hop.Flags
		problems = append(problems, l.addExpiring(one))
	}
	if len(r.MultiPath) == 0 {
		return l.addExpiring(r)
	}
	return errors.Join(problems...)
}

// addExpiring adds an IPv6 route with a lifetime beside those of other routers. It succeeds if the route exists.
func (l *links) addExpiring(r route) error {
	return netspace.In(l.ns, func() error {
		request := nl.NewNetlinkRequest(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_APPEND|unix.NLM_F_ACK)
		message := nl.NewRtMsg()
		message.Family, message.Protocol, message.Flags = unix.AF_INET6, uint8(r.Protocol), uint32(r.Flags)
		message.Table = unix.RT_TABLE_UNSPEC // see the attribute
		var to []byte
		if r.Dst != nil {
			bits, _ := r.Dst.Mask.Size()
			message.Dst_len, to = uint8(bits), r.Dst.IP.To16()
		}
		request.AddData(message)
		attribute := func(kind int, value []byte) {
			if len(value) > 0 {
				request.AddData(nl.NewRtAttr(kind, value))
			}
		}
		attribute(unix.RTA_DST, to)
		attribute(unix.RTA_GATEWAY, r.Gw.To16())
		attribute(unix.RTA_PREFSRC, r.Src.To16())
		for kind, number := range map[int]uint32{
			unix.RTA_OIF: uint32(r.LinkIndex), unix.RTA_TABLE: uint32(r.Table), unix.RTA_PRIORITY: uint32(r.Priority), rtaExpires: r.Lifetime,
		} {
			attribute(kind, nl.Uint32Attr(number))
		}
		if _, err := request.Execute(unix.NETLINK_ROUTE, 0); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return nil
	})
}
