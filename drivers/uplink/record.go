package uplink

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/contiv/netplugin/utils/durable"
)

// record has what was moved from each link to the local port of the bridge. It is on disk before anything is
// moved: a process that was killed in between finds it and continues.
type record struct {
	Boot   string                 `json:"boot"`             // items of another boot are obsolete
	Links  map[string]*belongings `json:"links"`            // moved items by link
	Former string                 `json:"former,omitempty"` // MAC of the local port that belongs to a link which is no uplink any more
	Plain  map[string]int         `json:"plain,omitempty"`  // links that were not promiscuous before they became ports, with their index
}

// note adds the addresses and routes of a link that is to be moved.
func (r *record) note(link string, found belongings) {
	if old := r.Links[link]; old == nil {
		r.Links[link] = &belongings{MAC: found.MAC, Index: found.Index}
	} else if old.Index != found.Index { // another link has the name: all routes are through this one
		old.Routes, old.Index = withLink(old.Routes, old.Index, found.Index), found.Index
	}
	r.Links[link].add(found)
	r.Links[link].Local = 0
}

// names returns the links, sorted; the first one is used first.
func (r record) names() []string { return slices.Sorted(maps.Keys(r.Links)) }

// plain returns the links that were not promiscuous.
func (r record) plain() []string { return slices.Sorted(maps.Keys(r.Plain)) }

// UnmarshalJSON also accepts the earlier form, which had one value for all links that the local port has everything.
func (r *record) UnmarshalJSON(data []byte) error {
	type plain record
	old := struct {
		*plain
		Local int `json:"local"`
	}{plain: (*plain)(r)}
	if err := json.Unmarshal(data, &old); err != nil {
		return err
	}
	for _, what := range r.Links {
		what.Local = cmp.Or(what.Local, old.Local)
	}
	return nil
}

func (r record) clone() record {
	links := map[string]*belongings{}
	for name, b := range r.Links {
		own := *b
		own.Addresses, own.Routes = slices.Clone(b.Addresses), slices.Clone(b.Routes)
		links[name] = &own
	}
	r.Links, r.Plain = links, maps.Clone(r.Plain)
	return r
}

const recordName = "uplink.json"

func (c Config) recordPath() string { return filepath.Join(c.StateDir, recordName) }

// readRecord returns what was moved since this boot. From an earlier boot it keeps only which links were not
// promiscuous, because the switch has made them promiscuous again, and hwaddr, the MAC of the local port in the
// switch's database: it may belong to a link which is no uplink any more.
func (c Config) readRecord(hwaddr string) (r record, err error) {
	boot, err := durable.Boot()
	if err != nil {
		return r, err
	}
	fresh := record{Boot: boot, Links: map[string]*belongings{}, Plain: map[string]int{}}
	data, err := os.ReadFile(c.recordPath())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fresh, nil
	case err != nil:
		return r, fmt.Errorf("what the host's addresses were: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s: what the host's addresses were is not readable: %w", c.recordPath(), err)
	}
	if r.Boot == fresh.Boot && r.Links != nil {
		if r.Plain == nil {
			r.Plain = fresh.Plain
		}
		return r, nil
	}
	for name := range r.Plain {
		fresh.Plain[name] = anyLink
	}
	if r.wasFormer(hwaddr, c.Links) {
		fresh.Former = hwaddr
	}
	return fresh, nil
}

// checkReadable returns an error if the record could not be read back, for example for a route through a
// gateway of the other IP family, which the library writes but does not read. Such a link is not moved.
func (b belongings) checkReadable() error {
	data, err := json.Marshal(b)
	if err == nil {
		err = json.Unmarshal(data, new(belongings))
	}
	return err
}

// wasFormer reports whether a MAC belongs to a link that is no uplink any more.
func (r record) wasFormer(mac string, uplinks []string) bool {
	for name, what := range r.Links {
		if what.MAC == mac && !slices.Contains(uplinks, name) {
			return true
		}
	}
	return r.Former == mac
}

// writeRecord returns when the record is on disk. Routes that could not be read back are left out, and lost if
// the process that has moved them is killed in between.
func (c Config) writeRecord(r record) error {
	r = r.clone()
	for _, what := range r.Links {
		what.Routes = slices.DeleteFunc(what.Routes, func(one route) bool { return belongings{Routes: []route{one}}.checkReadable() != nil })
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if old, err := os.ReadFile(c.recordPath()); err == nil && bytes.Equal(old, data) {
		return nil
	}
	c.Step("write record")
	if err := durable.MakeDir(c.StateDir); err != nil {
		return err
	}
	return durable.Write(c.recordPath(), data)
}
