package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
)

// peers validates the peers map, and completes it for a single member.
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

// initialCluster formats peers for etcd: name=URL,name=URL.
func initialCluster(peers map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		list = append(list, name+"="+peers[name])
	}
	return strings.Join(list, ",")
}

// foundation is the configuration with which a data directory was founded.
type foundation struct {
	Name     string            `json:"name"`
	Peers    map[string]string `json:"peers"`
	Founding bool              `json:"founding,omitempty"` // of a growing cluster that does not exist yet
}

// HasData reports whether a member has been started in a data directory.
// DiscardUnborn has checked before that the directory can be read.
func HasData(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "member", "wal"))
	return err == nil
}

// noteFile is the file with a data directory's foundation.
const noteFile = "founded.json"

// Found records, durably and before there is any data, that the member founds a growing cluster. The record is
// cleared once the cluster exists, so that a member that loses its data does not found another one.
func (c Config) Found() error {
	return note(c.Dir, foundation{c.Name, map[string]string{c.Name: c.PeerURL}, true})
}

// Founds reports whether Found was called for a member that has not been started yet.
func (c Config) Founds() bool {
	was, err := readNote(c.Dir)
	return err == nil && was.Founding && !HasData(c.Dir)
}

// WasPlain reports whether the others know a member with data by a plain peer URL, as far as it has recorded.
func (c Config) WasPlain() bool {
	was, err := readNote(c.Dir)
	return err == nil && HasData(c.Dir) && strings.HasPrefix(was.Peers[c.Name], "http:")
}

// founded clears the record of Found.
func (c Config) founded() error {
	was, err := readNote(c.Dir)
	if err != nil || !was.Founding {
		return nil // not relevant for this start
	}
	was.Founding = false
	return note(c.Dir, was)
}

// claim compares a data directory with the configuration, or, without data, records the configuration in it.
// etcd itself ignores the peers map of a member that has data, so that a wrong one would go unnoticed.
func (c Config) claim(peers map[string]string) error {
	if HasData(c.Dir) {
		return c.compare(peers)
	}
	return note(c.Dir, foundation{Name: c.Name, Peers: peers, Founding: c.Founds()})
}

func note(dir string, f foundation) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.New(fault.Invalid, "etcd data directory: %w", err)
	}
	text, err := json.Marshal(f)
	if err != nil {
		return fault.New(fault.Internal, "etcd data directory %s: %w", dir, err)
	}
	if err := durable.Write(filepath.Join(dir, noteFile), text); err != nil {
		return fault.New(fault.Invalid, "etcd data directory: %w", err)
	}
	return nil
}

func readNote(dir string) (f foundation, err error) {
	path := filepath.Join(dir, noteFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("%s: %w; it only guards against a start as another member: if name and peers of the flags are those of this member's data, remove the file", path, err)
	}
	return f, nil
}

func (c Config) compare(peers map[string]string) error {
	was, err := readNote(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // created by a separate etcd; its data decides
	}
	if err != nil {
		return fault.New(fault.Invalid, "etcd data directory: %w", err)
	}
	alone := len(was.Peers) == 1 && len(peers) == 1 // no other member uses its URL
	if was.Name != c.Name || !c.Grows && !alone && !maps.Equal(was.Peers, peers) {
		return fault.New(fault.Conflict, "etcd data directory %s: belongs to member %q of %s, not to %q of %s",
			c.Dir, was.Name, initialCluster(was.Peers), c.Name, initialCluster(peers))
	}
	return nil
}

// moved records that the other members use its present peer URL, which ends WasPlain.
func (c Config) moved() error {
	was, err := readNote(c.Dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && was.Peers[c.Name] == c.PeerURL {
		return nil
	}
	if err != nil {
		return fault.New(fault.Invalid, "etcd data directory: %w", err)
	}
	return note(c.Dir, foundation{Name: c.Name, Peers: map[string]string{c.Name: c.PeerURL}})
}
