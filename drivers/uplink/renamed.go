package uplink

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/utils/fault"
)

// followRenamed updates the names of links in the record. Otherwise a renamed link would count as removed, with
// the addresses that the host had there, and as a new one under its new name.
func (b *Bridge) followRenamed() error {
	next, changed := b.moved.clone(), false
	for _, old := range slices.Sorted(maps.Keys(next.indexes())) {
		name, err := b.renamed(old, next)
		if err != nil {
			return err
		}
		if name != "" {
			next.rename(old, name)
			changed = true
			b.log.WithField("uplink", name).WithField("former", old).Info("the uplink has another name")
		}
	}
	if !changed {
		return nil
	}
	if err := b.config.writeRecord(next); err != nil {
		return fault.New(fault.Unavailable, "that uplinks have other names cannot be written down: %w", err)
	}
	b.moved = next
	return nil
}

// renamed returns the new name of a link of the record; "" if it has kept its name, no longer exists, or cannot be
// identified. It is identified by index and MAC.
func (b *Bridge) renamed(old string, r record) (string, error) {
	if _, err := b.links.byName(old); !fault.Is(err, fault.NotFound) {
		return "", err
	}
	index := r.indexes()[old]
	if index == anyLink {
		return "", nil
	}
	link, err := b.links.handle.LinkByIndex(index)
	var notFound netlink.LinkNotFoundError
	switch {
	case errors.As(err, &notFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("link %d, which was uplink %s: %w", index, old, err)
	}
	name := link.Attrs().Name
	what := r.Links[old]
	if _, noted := r.indexes()[name]; noted || what != nil && what.MAC != link.Attrs().HardwareAddr.String() {
		return "", nil
	}
	return name, nil
}

// indexes returns the indexes of all links of the record, by name.
func (r record) indexes() map[string]int {
	indexes := map[string]int{}
	maps.Copy(indexes, r.Plain)
	for name, what := range r.Links {
		indexes[name] = what.Index
	}
	return indexes
}

// rename moves the record of a link to another name.
func (r record) rename(old, name string) {
	if index, noted := r.Plain[old]; noted {
		delete(r.Plain, old)
		r.Plain[name] = index
	}
	what := r.Links[old]
	if what == nil {
		return
	}
	delete(r.Links, old)
	r.Links[name] = what
	what.Addresses = relabelled(what.Addresses, old, name)
	settings := map[string]string{}
	for setting, value := range what.Settings {
		settings[strings.Replace(setting, "/"+old+"/", "/"+name+"/", 1)] = value
	}
	what.Settings = settings
}
