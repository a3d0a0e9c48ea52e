// Package rtwatch reports changes of the kernel's links, addresses, routes and neighbours.
package rtwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/retry"
)

// Watch calls changed whenever an object of the groups (unix.RTNLGRP_LINK and the like) has changed in a network
// namespace, and once whenever it begins to listen. netns.None() is the namespace of the calling thread. changed
// may block: changes that the kernel cannot queue meanwhile are reported as one.
//
// Watch ends only with ctx, and returns its cause. A failed subscription is logged once, and retried: the kernel
// may have no memory for a moment, or not support the protocol at all.
func Watch(ctx context.Context, log *logrus.Entry, at netns.NsHandle, changed func(), groups ...uint) error {
	anything := func(syscall.NetlinkMessage) bool { return true }
	return Listen(ctx, log, at, unix.NETLINK_ROUTE, anything, changed, groups...)
}

// Waits between two subscriptions.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// Listen is Watch for any netlink protocol; only messages for which concerns returns true count.
func Listen(ctx context.Context, log *logrus.Entry, at netns.NsHandle, protocol int, concerns func(syscall.NetlinkMessage) bool, changed func(), groups ...uint) error {
	wait, told := retry.NewPacer(firstRetry, lastRetry), false
	for ctx.Err() == nil {
		heard, err := listen(ctx, at, protocol, concerns, changed, groups)
		if heard {
			wait.Reset()
			told = false
		}
		if ctx.Err() == nil && !told && !errors.Is(err, unix.ENOBUFS) { // an overflow is not a failure
			told = true
			log.WithError(err).Warnf("the kernel does not tell of changes, protocol %d of netlink, groups %v", protocol, groups)
		}
		wait.Sleep(ctx)
	}
	return ctx.Err()
}

// listen runs one subscription, until it fails or ctx ends; heard reports whether a message was received.
func listen(ctx context.Context, at netns.NsHandle, protocol int, concerns func(syscall.NetlinkMessage) bool, changed func(), groups []uint) (heard bool, err error) {
	socket, err := nl.SubscribeAt(at, netns.None(), protocol, groups...)
	if err != nil {
		return false, fmt.Errorf("subscribe: %w", err)
	}
	defer socket.Close()
	defer context.AfterFunc(ctx, socket.Close)()
	changed()
	for {
		messages, _, err := socket.Receive()
		if err != nil {
			return heard, fmt.Errorf("receive: %w", err)
		}
		heard = true
		if slices.ContainsFunc(messages, concerns) {
			changed()
		}
	}
}
