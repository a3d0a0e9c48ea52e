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

// Open vSwitch makes its ports promiscuous, and restores that when it closes them. If it is killed it does not,
// and the next one takes the flag for the original state. So links that are not promiscuous are recorded before
// they become ports, and the flag is cleared when they are no ports any more.

// anyLink is the index of a link that was recorded in an earlier boot.
const anyLink = 0

func isPromiscuous(link netlink.Link) bool { return link.Attrs().RawFlags&unix.IFF_PROMISC != 0 }

// notePlain records which of the future ports are not promiscuous. An existing record of a link is kept: a
// killed switch may have changed the flag.
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

// releasePlain restores links that are no uplinks any more, once ovs-vswitchd has released them.
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

// makePlain clears the flag of a link, and drops its record. A link that has vanished, or is a port
// of another bridge, is left alone.
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
