// Package rtwatch tells when links, addresses or neighbours of the kernel change.
package rtwatch

import (
	"context"
	"fmt"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Watch calls changed whenever something of the groups (unix.RTNLGRP_LINK and the like)
// has changed in a network namespace, until ctx is done, and once at the beginning.
// netns.None() is the namespace of the calling thread. changed may take its time: what
// the kernel cannot keep meanwhile is told as one change.
func Watch(ctx context.Context, at netns.NsHandle, changed func(), groups ...uint) error {
	anything := func(syscall.NetlinkMessage) bool { return true }
	return Listen(ctx, at, unix.NETLINK_ROUTE, anything, changed, groups...)
}

// Listen is Watch for any protocol of netlink, of which only messages count that concern
// the caller.
func Listen(ctx context.Context, at netns.NsHandle, protocol int, concerns func(syscall.NetlinkMessage) bool, changed func(), groups ...uint) error {
	for {
		socket, err := nl.SubscribeAt(at, netns.None(), protocol, groups...)
		if err != nil {
			return fmt.Errorf("subscribe to changes of the kernel, protocol %d, groups %v: %w", protocol, groups, err)
		}
		stop := context.AfterFunc(ctx, socket.Close)
		for news := true; err == nil; {
			if news {
				changed()
			}
			var messages []syscall.NetlinkMessage
			messages, _, err = socket.Receive()
			news = slices.ContainsFunc(messages, concerns)
		}
		if stop() {
			socket.Close()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
