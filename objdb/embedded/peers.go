package embedded

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// peers checks the peers map and fills it in for a member that is alone.
func (c Config) peers() (map[string]string, error) {
	if c.Dir == "" || c.Name == "" {
		return nil, fault.New(fault.Invalid, "embedded etcd: data directory %q, name %q: both are required", c.Dir, c.Name)
	}
	if strings.ContainsAny(c.Name, "=,") {
		return nil, fault.New(fault.Invalid, "embedded etcd: name %q: holds '=' or ','", c.Name)
	}
	if len(c.Peers) == 0 {
		return map[string]string{c.Name: c.PeerURL}, nil
	}
	own, ok := c.Peers[c.Name]
	if !ok {
		return nil, fault.New(fault.Invalid, "embedded etcd: peers %s: this member, %q, is not among them", initialCluster(c.Peers), c.Name)
	}
	if own != c.PeerURL {
		return nil, fault.New(fault.Invalid, "embedded etcd: peers name %q as %s, but its peer URL is %s", c.Name, own, c.PeerURL)
	}
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Peers)) {
		u := c.Peers[name]
		if _, err := parseURL("peer", u); err != nil {
			return nil, err
		}
		if other, taken := names[u]; taken {
			return nil, fault.New(fault.Invalid, "embedded etcd: peers %q and %q have the same URL %s", other, name, u)
		}
		names[u] = name
	}
	return c.Peers, nil
}

// initialCluster is the notation of etcd: name=URL,name=URL.
func initialCluster(peers map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		list = append(list, name+"="+peers[name])
	}
	return strings.Join(list, ",")
}

// foundation is what a data directory was founded with.
type foundation struct {
	Name  string            `json:"name"`
	Peers map[string]string `json:"peers"`
}

// claim compares a data directory with the configuration, or, if there is no
// data yet, notes the configuration in it. etcd itself ignores the peers map of
// a member that has data, so that a wrong one would go unnoticed.
func claim(dir, name string, peers map[string]string) error {
	note := filepath.Join(dir, "founded.json")
	if _, err := os.Stat(filepath.Join(dir, "member", "wal")); err == nil {
		return compare(note, dir, name, peers)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.New(fault.Invalid, "etcd data directory: %w", err)
	}
	text, err := json.Marshal(foundation{name, peers})
	if err != nil {
		return fault.New(fault.Internal, "etcd data directory %s: %w", dir, err)
	}
	// Renamed into place, so that a crash leaves the old note or the new one.
	if err := os.WriteFile(note+".new", text, 0o600); err != nil {
		return fault.New(fault.Invalid, "etcd data directory: %w", err)
	}
	if err := os.Rename(note+".new", note); err != nil {
		return fault.New(fault.Invalid, "etcd data directory: %w", err)
	}
	return nil
}

func compare(note, dir, name string, peers map[string]string) error {
	text, err := os.ReadFile(note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // made by an etcd of its own; its data decides
	}
	if err != nil {
		return fault.New(fault.Invalid, "etcd data directory: %w", err)
	}
	var was foundation
	if err := json.Unmarshal(text, &was); err != nil {
		return fault.New(fault.Invalid, "etcd data directory: %s: %w", note, err)
	}
	alone := len(was.Peers) == 1 && len(peers) == 1 // nobody asks it by its URL
	if was.Name != name || !alone && !maps.Equal(was.Peers, peers) {
		return fault.New(fault.Conflict, "etcd data directory %s: belongs to member %q of %s, not to %q of %s",
			dir, was.Name, initialCluster(was.Peers), name, initialCluster(peers))
	}
	return nil
}
