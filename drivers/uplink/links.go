package uplink

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
)

// links are the links of the host.
type links struct {
	handle *netlink.Handle
	ns     *netns.NsHandle
}

func newLinks(ns *netns.NsHandle) (*links, error) {
	at := netns.None()
	if ns != nil {
		at = *ns
	}
	handle, err := netlink.NewHandleAt(at, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink of the uplinks' namespace: %w", err)
	}
	return &links{handle: handle, ns: ns}, nil
}

func (l *links) close() { l.handle.Close() }

// linkState is what matters of a link that is not ours.
type linkState struct {
	index         int // in its namespace; another link of the same name has another one
	down, carrier bool
	addresses     []string // that the host is reached by
}

// state returns the state of a link, and whether there is such a link.
func (l *links) state(name string) (state linkState, there bool, err error) {
	link, err := l.handle.LinkByName(name)
	var notFound netlink.LinkNotFoundError
	switch {
	case errors.As(err, &notFound):
		return linkState{}, false, nil
	case err != nil:
		return linkState{}, false, fault.New(fault.Unavailable, "link %s: %w", name, err)
	}
	attrs := link.Attrs()
	state = linkState{index: attrs.Index, down: attrs.Flags&net.FlagUp == 0, carrier: attrs.RawFlags&unix.IFF_LOWER_UP != 0}
	addresses, err := l.handle.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return linkState{}, false, fault.New(fault.Unavailable, "addresses of link %s: %w", name, err)
	}
	for _, a := range addresses {
		if a.IP.IsGlobalUnicast() {
			state.addresses = append(state.addresses, a.IPNet.String())
		}
	}
	return state, true, nil
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

// watch calls changed whenever a link of the namespace has changed, until ctx is
// done. What is missed because the kernel tells too much at once is told as one
// change.
func (l *links) watch(ctx context.Context, changed func()) error {
	for {
		updates, done := make(chan netlink.LinkUpdate), make(chan struct{})
		err := netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{Namespace: l.ns})
		if err != nil {
			return fmt.Errorf("changes of the uplinks: %w", err)
		}
		changed()
		open := true
		for open {
			select {
			case _, open = <-updates:
				changed()
			case <-ctx.Done():
				close(done)
				for range updates {
				}
				return ctx.Err()
			}
		}
		close(done)
	}
}
