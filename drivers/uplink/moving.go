package uplink

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/utils/fault"
)

// The host's addresses on a link move to the local port of the bridge when the link becomes a port of it. The local
// port has the link's MAC, so that neighbours notice no change. For each link: its addresses and routes are
// recorded, ovs-vswitchd makes it a port, the addresses are added to the local port and removed from the link, and
// the routes follow. Between the last two steps the host has no route for some microseconds, which connections do
// not notice.
//
// Addresses that appear on the link later, for example from a DHCP client, are moved as well, once the link has
// not changed for some seconds: the client adds routes through it first.

// noteHost records the host's addresses and routes at future ports, before anything is changed, and returns the
// links that can become ports. A link waits until the local port exists. strange are the links that stay as they
// are, and why.
func (b *Bridge) noteHost(usable []string) (ready []string, strange map[string]error, err error) {
	_, missing := b.localPort()
	ports, next, noted := b.db.memberNames(b.config.Bridge), b.moved.clone(), map[string]bool{}
	strange = map[string]error{}
	for _, name := range usable {
		found, err := b.hostAt(name)
		if err != nil {
			return ports, nil, err
		}
		if unmoved := cmp.Or(found.checkReadable(), found.byNextHop()); unmoved != nil && !slices.Contains(ports, name) {
			strange[name] = fault.New(fault.Unsupported, "uplink %s: what the host has there cannot be moved, and it stays as it is: %w", name, unmoved)
			continue
		}
		if found.empty() {
			delete(b.busy, name)
		} else if !slices.Contains(ports, name) || b.isQuiet(name, found) {
			next.note(name, found)
			noted[name] = true
		}
	}
	if len(noted) > 0 {
		if err = b.config.writeRecord(next); err != nil {
			err = fault.New(fault.Unavailable, "the host's addresses on uplinks cannot be written down, and stay where they are: %w", err)
		} else {
			b.moved = next
		}
	}
	for _, name := range usable {
		blocked := noted[name] && (missing != nil || err != nil)
		if strange[name] == nil && (!blocked || slices.Contains(ports, name) && missing == nil) {
			ready = append(ready, name)
		}
	}
	return ready, strange, err
}

// quietTime is how long the host's addresses and routes at a port must not have changed before they are moved.
const quietTime = 3 * time.Second

// seenAt is what was found at a link, and since when it is unchanged.
type seenAt struct {
	what  string
	since time.Time
}

// isQuiet reports whether a link has been unchanged for quietTime. If not, the keeper checks again.
func (b *Bridge) isQuiet(name string, found belongings) bool {
	what := found.texts()
	if b.busy[name].what != what {
		b.busy[name] = seenAt{what, time.Now()}
	}
	if time.Since(b.busy[name].since) < quietTime {
		return false
	}
	delete(b.busy, name)
	return true
}

func (b *Bridge) hostAt(name string) (belongings, error) {
	link, err := b.links.byName(name)
	if err != nil {
		return belongings{}, err
	}
	return b.links.belongings(link)
}

// moveHost moves recorded addresses and routes to the local port, unless it has them, once their links are
// ports. Those of a link that ovs-vswitchd refuses stay there: packets of the local port would not leave
// through that link. If they were moved before the refusal, they stay at the local port.
func (b *Bridge) moveHost(ports []string) error {
	if len(b.moved.Links) == 0 {
		return nil
	}
	local, err := b.localPort()
	if fault.Is(err, fault.NotFound) {
		return nil // a notification follows when it is created
	} else if err != nil {
		return err
	}
	if err := b.release(local); err != nil {
		return err
	}
	if err := b.noteLocal(); err != nil {
		return err
	}
	var problems []error
	for _, name := range b.moved.names() {
		what := b.moved.Links[name]
		if what.Local == local.Attrs().Index {
			continue
		}
		isPort := slices.Contains(ports, name)
		if !isPort {
			if stays, err := b.stays(name); err != nil || stays {
				problems = append(problems, err)
				continue // a notification follows when it becomes one
			}
		}
		if err := b.moveFrom(name, what, local, isPort); err != nil {
			problems = append(problems, err)
			continue
		}
		what.Local = local.Attrs().Index
	}
	if len(b.moved.Links) > 0 {
		problems = append(problems, b.config.writeRecord(b.moved))
	}
	if err := errors.Join(problems...); err != nil {
		return fault.New(fault.Unavailable, "the host's addresses: %w", err)
	}
	return nil
}

// localPort returns the link of the local port, once ovs-vswitchd has configured it: to set its MAC, ovs-vswitchd
// takes a link of the userspace datapath down for a moment, and with it its routes and IPv6 addresses.
func (b *Bridge) localPort() (netlink.Link, error) {
	if b.db.seen() < b.local {
		return nil, fault.New(fault.NotFound, "bridge %s: ovs-vswitchd has not made its local port yet", b.config.Bridge)
	}
	return b.links.byName(b.config.Bridge)
}

// newLocal delays the use of a local port that ovs-vswitchd has created by itself, for example after its own
// restart, until it has applied a later configuration. A local port that has the moved addresses is not a new one.
func (b *Bridge) newLocal(ctx context.Context) error {
	if len(b.moved.Links) == 0 {
		return nil
	}
	local, err := b.links.byName(b.config.Bridge)
	if fault.Is(err, fault.NotFound) {
		return nil // a notification follows when it is created
	} else if err != nil {
		return err
	}
	index := local.Attrs().Index
	for _, what := range b.moved.Links {
		if what.Local == index {
			b.whose = index
		}
	}
	if b.whose == index {
		return nil
	}
	_, config, err := b.db.client.Configure(ctx)
	if err == nil {
		b.local, b.whose = config, index
	}
	return err
}

// moveFrom moves the recorded items of a link, unless the local port has them. Other items stay at the link; a
// link that is not a port is left alone.
func (b *Bridge) moveFrom(name string, what *belongings, local netlink.Link, isPort bool) error {
	have, err := b.links.belongings(local)
	if err != nil {
		return err
	}
	_, missing := what.split(have)
	link, noLink := b.links.byName(name)
	var noted belongings
	if noLink == nil && isPort {
		found, err := b.links.belongings(link)
		if err != nil {
			return err
		}
		noted, _ = found.split(*what)
		missing.add(noted) // a longer lease is there already
	}
	if !missing.empty() {
		if err := b.configureLocal(); err != nil {
			return err
		}
	}
	ungiven := b.links.addAddresses(local, name, missing) // an error does not prevent the rest
	if noLink == nil && isPort {
		if err := b.setPortSettings(name, what); err != nil {
			return err
		}
		if err := b.links.removeBelongings(link, noted); err != nil {
			return err
		}
	}
	if missing.empty() {
		return ungiven
	}
	b.told = ""
	b.log.WithField("uplink", name).WithField("addresses", what.addressTexts()).Info("the host's addresses are on bridge " + b.config.Bridge)
	missing.Routes = b.outOf(name, local, missing.Routes)
	return errors.Join(ungiven, b.links.addRoutes(local, missing))
}

// outOf returns the routes of a link, with other hops through the local port if their link is, or will be, a port.
func (b *Bridge) outOf(name string, local netlink.Link, routes []route) []route {
	for other, what := range b.moved.Links {
		if other != name && slices.Contains(b.config.Links, other) {
			routes = withLink(routes, what.Index, local.Attrs().Index)
		}
	}
	return routes
}

// configureLocal sets the local port's IPv6 sysctls, for which a new link has only defaults: IPv6 is off if it
// is off at all moved links, and router advertisements are accepted as at the first link with IPv6. If routes
// were learned from them, they are accepted even if the host forwards packets.
func (b *Bridge) configureLocal() error {
	isOff, heard := false, false
	var local map[string]string
	for _, name := range b.moved.names() {
		heard = heard || b.moved.Links[name].hasRouterAdvertised()
		now, err := b.links.get(versionSettings(name))
		if err != nil {
			return err
		}
		maps.Copy(now, b.moved.Links[name].Settings) // as before they were changed
		switch on := now["ipv6/conf/"+name+"/disable_ipv6"]; {
		case on == "1":
			isOff = true
		case on == "0" && local == nil:
			local = versionSettings(b.config.Bridge)
			for setting := range local {
				local[setting] = now[strings.Replace(setting, "/"+b.config.Bridge+"/", "/"+name+"/", 1)]
			}
		}
	}
	switch {
	case local == nil && isOff:
		local = map[string]string{"ipv6/conf/" + b.config.Bridge + "/disable_ipv6": "1"}
	case local != nil && heard:
		maps.Copy(local, routerSettings(b.config.Bridge))
	}
	return b.links.set(local)
}

// setPortSettings sets the sysctls of a link that becomes a port. The former values are on disk first, so that
// they can be restored if the process is killed in between.
func (b *Bridge) setPortSettings(name string, what *belongings) (err error) {
	settings := portSettings(name)
	if what.Settings == nil {
		before, err := b.links.get(settings)
		if err != nil {
			return err
		}
		next := b.moved.clone()
		next.Links[name].Settings = before
		if err := b.config.writeRecord(next); err != nil {
			return err
		}
		what.Settings = before
	}
	return b.links.set(settings)
}

// noteLocal records the present state of the local port: the remaining items of each moved link, and new items
// as those of the first moved link, or of the first link if there is none. A port that is down, or has nothing,
// is being removed and loses its items; the record is not changed then.
func (b *Bridge) noteLocal() error {
	local, err := b.localPort()
	if fault.Is(err, fault.NotFound) || len(b.moved.Links) == 0 {
		return nil // the record is up to date
	} else if err != nil {
		return err
	}
	index := local.Attrs().Index
	rest, err := b.links.belongings(local)
	if err != nil {
		return err
	}
	if state, _, err := b.links.state(b.config.Bridge); err != nil || state.down || state.index != index || len(rest.Addresses) == 0 {
		return err
	}
	names := b.moved.names()
	heir := slices.IndexFunc(names, func(name string) bool { return b.moved.Links[name].Local == index })
	for _, name := range names {
		what, theirs := b.moved.Links[name], belongings{}
		theirs, rest = rest.split(*what)
		if what.Local == index {
			*what = theirs
		}
	}
	if heir < 0 && rest.empty() {
		return nil
	}
	name := names[max(heir, 0)]
	first := b.moved.Links[name]
	first.Addresses = append(first.Addresses, relabelled(rest.Addresses, b.config.Bridge, name)...)
	first.Routes = append(first.Routes, withLink(rest.Routes, rest.Index, first.Index)...)
	return b.config.writeRecord(b.moved)
}

// recordLocalPort records the addresses and routes of the local port before the port is set down, replaced, or
// loses some of them: they are restored afterwards.
func (b *Bridge) recordLocalPort() error {
	if len(b.moved.Links) == 0 {
		return nil
	}
	if err := b.noteLocal(); err != nil {
		return err
	}
	for _, what := range b.moved.Links {
		what.Local = 0
	}
	return b.config.writeRecord(b.moved)
}

// wantedMAC returns the MAC that the local port should have: that of the first moved link; "" if there is none.
// A refused link that keeps its addresses keeps its MAC as well.
func (b *Bridge) wantedMAC() (string, error) {
	refused := b.failures()
	for _, name := range b.moved.names() {
		if refused[name] != nil {
			if stays, err := b.stays(name); err != nil {
				return "", err
			} else if stays {
				continue
			}
		}
		return b.moved.Links[name].MAC, nil
	}
	return "", nil
}

// stays reports whether a link still has some of the recorded items.
func (b *Bridge) stays(name string) (bool, error) {
	found, err := b.hostAt(name)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	still, _ := found.split(*b.moved.Links[name])
	return !still.empty(), err
}
