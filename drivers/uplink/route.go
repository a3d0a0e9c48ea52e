package uplink

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/netspace"
)

// route is a route of the host. One that a router has told by IPv6 is forgotten after a
// while, unless the router goes on telling it.
type route struct {
	netlink.Route
	Lifetime uint32 `json:",omitempty"` // seconds; 0: for ever
}

// heardOfRouters tells whether something is there because a router has told it.
func (b belongings) heardOfRouters() bool {
	return slices.ContainsFunc(b.Routes, func(r route) bool { return r.Protocol == unix.RTPROT_RA })
}

// routerSettings have the kernel listen to routers at a link, also where the host
// forwards packets. What routers have told would end there otherwise: whoever listened at
// the uplink, the kernel or a daemon, is not heard at the local port.
func routerSettings(link string) map[string]string {
	return map[string]string{"ipv6/conf/" + link + "/accept_ra": "2"}
}

// Parts of messages of rtnetlink that the library does not know, see linux/rtnetlink.h.
const (
	rtaExpires     = 23
	expiresAt      = 8   // in struct rta_cacheinfo
	ticksPerSecond = 100 // of that field, USER_HZ
)

// lifetimes asks the kernel for the lifetimes of routes.
func (l *links) lifetimes(routes []route) error {
	known, err := l.dumpLifetimes()
	if err != nil {
		return fmt.Errorf("lifetimes of routes: %w", err)
	}
	for i, r := range routes {
		if r.Family == netlink.FAMILY_V6 {
			routes[i].Lifetime = known[keyOf(r)]
		}
	}
	return nil
}

// routeKey tells one route of IPv6 from others.
type routeKey struct {
	to, via               string
	link, table, priority int
}

func keyOf(r route) routeKey {
	to := ""
	if r.Dst != nil {
		to = r.Dst.String()
	}
	if to == "::/0" {
		to = ""
	}
	return routeKey{to, string(r.Gw.To16()), r.LinkIndex, r.Table, r.Priority}
}

// dumpLifetimes are the lifetimes, in seconds, of those routes that have one.
func (l *links) dumpLifetimes() (known map[routeKey]uint32, err error) {
	known = map[routeKey]uint32{}
	err = netspace.In(l.ns, func() error {
		request := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
		message := nl.NewRtMsg()
		message.Family = unix.AF_INET6
		request.AddData(message)
		answers, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
		if err != nil {
			return err
		}
		for _, answer := range answers {
			key, lifetime, err := readLifetime(answer)
			if err != nil {
				return err
			}
			if lifetime > 0 {
				known[key] = lifetime
			}
		}
		return nil
	})
	return known, err
}

func readLifetime(answer []byte) (key routeKey, lifetime uint32, err error) {
	message := nl.DeserializeRtMsg(answer)
	attrs, err := nl.ParseRouteAttr(answer[message.Len():])
	if err != nil {
		return key, 0, err
	}
	key.table = int(message.Table)
	for _, a := range attrs {
		number := 0
		if len(a.Value) >= 4 {
			number = int(binary.NativeEndian.Uint32(a.Value))
		}
		switch a.Attr.Type {
		case unix.RTA_DST:
			key.to = (&net.IPNet{IP: a.Value, Mask: net.CIDRMask(int(message.Dst_len), 128)}).String()
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
				lifetime = max(uint32(ticks)/ticksPerSecond, 1)
			}
		}
	}
	return key, lifetime, nil
}

// addRoute adds a route, with its lifetime.
func (l *links) addRoute(r route) error {
	if r.Lifetime == 0 {
		return l.handle.RouteAdd(&r.Route)
	}
	return netspace.In(l.ns, func() error {
		request := nl.NewNetlinkRequest(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
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
		_, err := request.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
}
