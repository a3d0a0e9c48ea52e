package hostaccess

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/rtwatch"
)

// watch calls changed when another process has changed a managed object: an interface, its addresses, a route, an
// nftables table, or whether the host forwards, globally or on a managed interface. Most messages of the kernel
// are about other objects and are ignored. watch returns only when ctx ends.
func (o *own) watch(ctx context.Context, log *logrus.Entry, changed func()) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return rtwatch.Listen(ctx, log, netns.None(), unix.NETLINK_ROUTE, o.concerns, changed,
			unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
			unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF)
	})
	group.Go(func() error {
		return rtwatch.Listen(ctx, log, netns.None(), unix.NETLINK_NETFILTER, isOurTable, changed, unix.NFNLGRP_NFTABLES)
	})
	return group.Wait()
}

// own are the managed interfaces.
type own struct {
	mu        sync.Mutex
	links     map[int]bool // by index
	addresses bool         // whether addresses of other interfaces count, too
}

// follow sets whether changes of any address of the host count: an address of load balancers may be on any
// interface.
func (o *own) follow(addresses bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.addresses = addresses
}

func (o *own) follows() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.addresses
}

func (o *own) add(index int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.links == nil {
		o.links = map[int]bool{}
	}
	o.links[index] = true
}

func (o *own) has(index int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.links[index]
}

// concerns reports whether an rtnetlink message is about a managed object. The interface of a removed route may be
// gone, too, so routes are recognised by their protocol.
func (o *own) concerns(m syscall.NetlinkMessage) bool {
	const protocolAt, indexAt = 5, 4 // in struct rtmsg; in struct ifinfomsg and ifaddrmsg
	switch m.Header.Type {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return o.follows() || len(m.Data) >= indexAt+4 && o.has(int(binary.NativeEndian.Uint32(m.Data[indexAt:])))
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return len(m.Data) >= indexAt+4 && o.has(int(binary.NativeEndian.Uint32(m.Data[indexAt:])))
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return len(m.Data) > protocolAt && m.Data[protocolAt] == byte(routeProtocol)
	case unix.RTM_NEWNETCONF:
		// After struct netconfmsg, its first attribute is the interface; -1: all of them.
		const valueAt = 8
		if len(m.Data) < valueAt+4 {
			return false
		}
		index := int32(binary.NativeEndian.Uint32(m.Data[valueAt:]))
		return index == -1 || o.has(int(index))
	}
	return false
}

// isOurTable reports whether a message of nftables is about one of netplugin's tables: its name is the first
// attribute of all objects, after a header that begins with the family.
func isOurTable(m syscall.NetlinkMessage) bool {
	const header, nameAt = 4, 8
	if len(m.Data) < nameAt || m.Data[0] != unix.NFPROTO_INET && m.Data[0] != unix.NFPROTO_NETDEV {
		return false
	}
	name, _, ended := bytes.Cut(m.Data[nameAt:], []byte{0})
	return ended && (string(name) == tableName || string(name) == strangerTableName) && binary.NativeEndian.Uint16(m.Data[header+2:]) == 1
}
