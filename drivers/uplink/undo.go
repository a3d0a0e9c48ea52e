package uplink

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
)

// Undo removes the bridge and restores the host's addresses and routes on the links, in their original form or
// that of the local port; links that were not promiscuous are made so again. Items at the local port that were
// not moved there, for example by the host's own configuration, are moved to the first link. No agent may run.
// Without a bridge, nothing is done. RunDir and the paths of config are used. The error names what is left.
func Undo(ctx context.Context, config Config) error {
	b, err := open(config)
	if err != nil {
		return err
	}
	defer b.links.close()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = b.db.client.Run(ctx) // ends with ctx
	}()
	defer func() { cancel(); <-ended }()
	if err := b.db.client.Wait(ctx, func() (bool, error) { return b.db.client.Owner(), nil }); err != nil {
		return fault.New(fault.Unavailable, "bridge %s stays: database of the switch: %w", b.config.Bridge, err)
	}
	if b.moved, err = b.config.readRecord(""); err != nil { // the bridge is removed, with its MAC
		return err
	}
	if err := b.followRenamed(); err != nil {
		return err
	}
	if err := b.noteLocal(); err != nil {
		return err
	}
	if err := b.noteForeign(); err != nil {
		return err
	}
	if err := b.removeBridge(ctx); err != nil {
		return err
	}
	var problems []error
	for range 2 { // a multipath route can be added once the last of its links has its addresses
		problems = nil
		for _, name := range b.moved.names() {
			if err := b.restoreLink(name); err != nil {
				problems = append(problems, fault.New(fault.Unavailable, "the host's addresses on uplink %s, see %s: %w", name, b.config.recordPath(), err))
			}
		}
	}
	for _, name := range b.moved.plain() {
		problems = append(problems, b.makePlain(name))
	}
	b.announce(ctx)
	if err := errors.Join(problems...); err != nil {
		return err
	}
	b.config.Step("remove record")
	return durable.Remove(b.config.recordPath())
}

// noteForeign records the host's items at the local port that were not moved there.
func (b *Bridge) noteForeign() error {
	if len(b.moved.Links) > 0 {
		return nil // noteLocal has recorded them
	}
	found, err := b.hostAt(b.config.Bridge)
	if fault.Is(err, fault.NotFound) || err == nil && found.empty() {
		return nil
	} else if err != nil {
		return err
	}
	members := b.db.memberNames(b.config.Bridge)
	if len(members) == 0 {
		return fault.New(fault.Conflict, "bridge %s stays: the host has %s there, and there is no uplink that could have it", b.config.Bridge, found.addressTexts())
	}
	found.Addresses = relabelled(found.Addresses, b.config.Bridge, members[0])
	b.moved.note(members[0], found)
	return b.config.writeRecord(b.moved)
}

// Moved returns what Undo would restore, a line for each link.
func Moved(config Config) (lines []string, err error) {
	if config.StateDir == "" {
		config.StateDir = DefaultStateDir
	}
	moved, err := config.readRecord("")
	for _, name := range moved.names() {
		lines = append(lines, fmt.Sprintf("uplink %s: the host's %s", name, moved.Links[name].addressTexts()))
	}
	for _, name := range moved.plain() {
		link, missing := netlink.LinkByName(name)
		if missing == nil && isPromiscuous(link) && moved.Links[name] == nil {
			lines = append(lines, fmt.Sprintf("uplink %s: that it is promiscuous", name))
		}
	}
	return lines, err
}

// removeBridge removes the bridge, and returns when ovs-vswitchd has.
func (b *Bridge) removeBridge(ctx context.Context) error {
	bridge, ok := b.db.bridge(b.config.Bridge)
	if !ok {
		return nil
	}
	b.config.Step("remove bridge")
	_, config, err := b.db.client.Configure(ctx, ovsdb.Mutate("Open_vSwitch", ovsdb.All(),
		ovsdb.Mutation{Column: "bridges", Mutator: "delete", Value: bridge.UUID}))
	if err != nil {
		return err
	}
	if err := b.db.client.Wait(ctx, func() (bool, error) { return b.db.seen() >= config, nil }); err != nil {
		return fault.New(fault.Unavailable, "bridge %s: ovs-vswitchd has not removed it yet: %w", b.config.Bridge, err)
	}
	return nil
}

// restoreLink moves addresses and routes back to a link, and deletes them from the record, so that a retry for
// another link does not touch this one. For a deleted link they are dropped.
func (b *Bridge) restoreLink(name string) error {
	if err := b.give(name, *b.moved.Links[name]); err != nil {
		return err
	}
	b.announceBack(name)
	delete(b.moved.Links, name)
	return b.config.writeRecord(b.moved)
}

func (b *Bridge) give(name string, what belongings) error {
	link, err := b.links.byName(name)
	if fault.Is(err, fault.NotFound) {
		b.log.WithField("uplink", name).WithField("addresses", what.addressTexts()).Warn("the uplink has gone, and the host's addresses at it")
		return nil
	} else if err != nil {
		return err
	}
	if err := b.links.set(what.Settings); err != nil {
		return err
	}
	if what.Settings["ipv6/conf/"+name+"/disable_ipv6"] == "1" { // IPv6 items of the local port cannot be on this link
		what = what.without(netlink.FAMILY_V6)
	}
	if local, err := b.links.byName(b.config.Bridge); err == nil {
		what.Routes = b.outOf(name, local, what.Routes)
	}
	if err := errors.Join(b.links.addAddresses(link, name, what), b.links.addRoutes(link, what)); err != nil {
		return err
	}
	b.log.WithField("uplink", name).WithField("addresses", what.addressTexts()).Info("the host's addresses are back on their link")
	return nil
}

// release moves the items of links that are no uplinks any more back to them.
func (b *Bridge) release(local netlink.Link) error {
	for _, name := range b.moved.names() {
		if slices.Contains(b.config.Links, name) {
			continue
		}
		if err := b.recordLocalPort(); err != nil { // includes other links: the kernel may remove more than the removed items
			return err
		}
		what := b.moved.Links[name]
		if bridge, _ := b.db.bridge(b.config.Bridge); bridge.OtherConfig["hwaddr"] == what.MAC {
			b.moved.Former = what.MAC
		}
		if err := b.config.writeRecord(b.moved); err != nil {
			return err
		}
		if err := b.links.removeBelongings(local, *what); err != nil {
			return err
		}
		if err := b.restoreLink(name); err != nil {
			return err
		}
	}
	return nil
}
