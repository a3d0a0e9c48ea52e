package uplink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/netspace"
	"github.com/contiv/netplugin/utils/retry"
	"github.com/contiv/netplugin/utils/rtwatch"
)

// links are the links of the host.
type links struct {
	handle *netlink.Handle
	ns     *netns.NsHandle
	step   func(what string)
}

func newLinks(ns *netns.NsHandle, step func(string)) (*links, error) {
	l := &links{ns: ns, step: step}
	var err error
	if l.handle, err = netlink.NewHandleAt(l.at(), unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("netlink of the uplinks' namespace: %w", err)
	}
	return l, nil
}

// at returns the network namespace of the links.
func (l *links) at() netns.NsHandle {
	if l.ns == nil {
		return netns.None()
	}
	return *l.ns
}

func (l *links) close() { l.handle.Close() }

// linkState is the relevant state of a link.
type linkState struct {
	index         int // in its namespace; another link with the same name has another one
	down, carrier bool
	changes       uint32 // number of carrier changes
}

// byName returns a link; fault.NotFound if it does not exist.
func (l *links) byName(name string) (netlink.Link, error) {
	link, err := l.handle.LinkByName(name)
	var notFound netlink.LinkNotFoundError
	switch {
	case errors.As(err, &notFound):
		return nil, fault.New(fault.NotFound, "link %s: there is no such link", name)
	case err != nil:
		return nil, fault.New(fault.Unavailable, "link %s: %w", name, err)
	}
	return link, nil
}

// state returns the state of a link, and whether it exists.
func (l *links) state(name string) (state linkState, there bool, err error) {
	link, err := l.byName(name)
	switch {
	case fault.Is(err, fault.NotFound):
		return linkState{}, false, nil
	case err != nil:
		return linkState{}, false, err
	}
	attrs := link.Attrs()
	changes, err := l.carrierChanges(attrs.Index)
	return linkState{attrs.Index, attrs.Flags&net.FlagUp == 0, attrs.RawFlags&unix.IFF_LOWER_UP != 0, changes}, true, err
}

// carrierChanges returns the number of carrier changes of a link: it reveals a carrier loss that is
// shorter than the check interval.
func (l *links) carrierChanges(index int) (changes uint32, err error) {
	err = netspace.In(l.ns, func() error {
		request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
		message := nl.NewIfInfomsg(unix.AF_UNSPEC)
		message.Index = int32(index)
		request.AddData(message)
		answers, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
		if err != nil {
			return fmt.Errorf("link %d: %w", index, err)
		}
		for _, answer := range answers {
			attrs, err := nl.ParseRouteAttr(answer[message.Len():])
			if err != nil {
				return fmt.Errorf("link %d: %w", index, err)
			}
			for _, a := range attrs {
				if a.Attr.Type == unix.IFLA_CARRIER_CHANGES && len(a.Value) == 4 {
					changes = binary.NativeEndian.Uint32(a.Value)
				}
			}
		}
		return nil
	})
	return changes, err
}

// setUp sets a link up.
func (l *links) setUp(name string) error {
	link, err := l.handle.LinkByName(name)
	if err == nil {
		err = l.handle.LinkSetUp(link)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "link %s: set it up: %w", name, err)
	}
	return nil
}

// watch calls changed for each change of a link or an address of the namespace, until ctx is done.
func (l *links) watch(ctx context.Context, log *logrus.Entry, changed func()) error {
	return rtwatch.Watch(ctx, log, l.at(), changed, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
}

// watchRoutes calls changed a while after changes of routes: a router changes thousands at once.
func (l *links) watchRoutes(ctx context.Context, log *logrus.Entry, changed func()) error {
	later := func() {
		retry.Pause(ctx, pause)
		changed()
	}
	return rtwatch.Watch(ctx, log, l.at(), later, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
}
