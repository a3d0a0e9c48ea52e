// Package rtwatch tells when links, addresses or neighbours of the kernel change.
package rtwatch

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Watch calls changed whenever something of the groups (unix.RTNLGRP_LINK and the like)
// has changed in a network namespace, until ctx is done, and once at the beginning.
// netns.None() is the namespace of the calling thread. changed may take its time: what
// the kernel cannot keep meanwhile is told as one change.
func Watch(ctx context.Context, at netns.NsHandle, changed func(), groups ...uint) error {
	for {
		socket, err := nl.SubscribeAt(at, netns.None(), unix.NETLINK_ROUTE, groups...)
		if err != nil {
			return fmt.Errorf("subscribe to changes of the kernel, groups %v: %w", groups, err)
		}
		stop := context.AfterFunc(ctx, socket.Close)
		for err == nil {
			changed()
			_, _, err = socket.Receive()
		}
		if stop() {
			socket.Close()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
