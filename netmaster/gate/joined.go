package gate

import (
	"encoding/json"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
)

// setNode records how a node has joined, or that it was removed: the next node with this name may see more, or less.
func (x *index) setNode(host string, e mirror.Event, rev int64) {
	old, was := x.nodes[host]
	x.ends.remove(host, old)
	var joined mastercfg.Joined
	if e.Value == nil || json.Unmarshal(e.Value, &joined) != nil {
		if was {
			x.addLoss(host, rev)
		}
		delete(x.nodes, host)
		delete(x.joinedAt, host)
		return
	}
	if !slices.Equal(old.Tenants, joined.Tenants) {
		x.addLoss(host, rev)
	}
	x.nodes[host], x.joinedAt[host] = joined, e.ModRevision
	x.ends.add(host, joined)
}

// setEntry records the host of a registration. Its cost does not depend on the number of hosts: a listing has
// the registrations of all of them, and the lock is held meanwhile.
func (x *index) setEntry(key string, value []byte) {
	if host, was := x.entries[key]; was {
		delete(x.entries, key)
		if x.registered[host]--; x.registered[host] == 0 {
			delete(x.registered, host)
		}
	}
	var s objdb.Service
	if value == nil || json.Unmarshal(value, &s) != nil || s.Hostname == "" {
		return
	}
	x.entries[key] = s.Hostname
	x.registered[s.Hostname]++
}

// holdsKey reports whether a node has the key pair that its name belongs to.
func (x *index) holdsKey(host, key string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.isOf(host, key)
}

// isOf is holdsKey for callers that hold the lock.
func (x *index) isOf(host, key string) bool {
	joined, known := x.nodes[host]
	return known && key != "" && joined.Key == key
}
