package uplink

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
)

// Open vSwitch makes its ports promiscuous, and takes that back when it closes them. If it is killed it does not, and the next
// one takes it for what they were before. So it is written down of links that they are not, before they become ports, and they
// are made so again when they are none any more.

// anyLink is the index of a link that was noted in another boot.
const anyLink = 0

func isPromiscuous(link netlink.Link) bool { return link.Attrs().RawFlags&unix.IFF_PROMISC != 0 }

// notePlain writes down which of the links that are to become ports are not promiscuous. What is known of a link stays: a switch
// that was killed may have left it otherwise.
func (b *Bridge) notePlain(names []string) error {
	next := b.moved.clone()
	var problems []error
	for _, name := range names {
		link, err := b.links.byName(name)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		index := link.Attrs().Index
		if known, noted := next.Plain[name]; noted && (known == anyLink || known == index) {
			continue
		}
		if delete(next.Plain, name); !isPromiscuous(link) {
			next.Plain[name] = index
		}
	}
	if !maps.Equal(next.Plain, b.moved.Plain) {
		if err := b.config.writeRecord(next); err != nil {
			return fault.New(fault.Unavailable, "that uplinks %q are not promiscuous cannot be written down: %w", names, err)
		}
		b.moved = next
	}
	return errors.Join(problems...)
}

// releasePlain makes links that are no uplinks any more as they were, once ovs-vswitchd is done with them.
func (b *Bridge) releasePlain() error {
	var problems []error
	stay := append(b.db.memberNames(b.config.Bridge), b.config.Links...)
	for _, name := range b.moved.plain() {
		if !slices.Contains(stay, name) && b.db.seen() >= b.db.rootRow().NextCfg {
			problems = append(problems, b.makePlain(name))
		}
	}
	return errors.Join(problems...)
}

// makePlain makes a link as it was, and forgets that. If it has gone, or is a port of another bridge, it is left alone.
func (b *Bridge) makePlain(name string) error {
	link, err := b.links.byName(name)
	switch known := b.moved.Plain[name]; {
	case fault.Is(err, fault.NotFound):
	case err != nil:
		return err
	case b.db.bridgeOf(name) != "" || known != anyLink && known != link.Attrs().Index || !isPromiscuous(link):
	default:
		b.config.Step("make plain")
		if err := b.links.handle.SetPromiscOff(link); err != nil {
			return fmt.Errorf("link %s: make it not promiscuous, as it was: %w", name, err)
		}
	}
	delete(b.moved.Plain, name)
	return b.config.writeRecord(b.moved)
}
