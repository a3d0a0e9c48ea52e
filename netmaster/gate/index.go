package gate

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
)

// index has what the gate knows of the state: the scopes of records;
// the tenants and the join records of nodes; and the latest changes.
type index struct {
	mu         sync.RWMutex
	records    map[string]record              // by key; of the kinds whose value has the scope
	networks   map[string]network             // by id
	serves     map[string]map[string]*service // host -> tenant
	lost       map[string]loss                // by host
	nodes      map[string]mastercfg.Joined    // by host
	joinedAt   map[string]int64               // host -> revision of its record
	ends       ends                           // tunnel addresses of nodes
	entries    map[string]string              // key of a registration -> host
	registered map[string]int                 // host -> number of registrations
	entered    map[string]string              // key of a record that every node serves -> its tenant
	routing    bool                           // VLANs are routed
	era        int                            // number of the store's history
	sighted    sighting
	names      map[string]string // interned names
	sweepAt    int               // number of names at which unused ones are dropped
	recent     recent
	open       func(place, sealed string) (string, error) // decrypts with the keyring
	withheld   withheld
	spread     time.Duration // time over which nodes, one after the other, learn of a loss that concerns all
}

// record has the scope of a record.
type record struct {
	scope
	vlan bool  // of an endpoint: its network is a VLAN
	rev  int64 // revision of its last write
	born int64 // revision of its creation: before, another record may have had its key
}

type network struct {
	tenant string
	vlan   bool
	infra  bool // every host has an endpoint in it
}

func newIndex(open func(place, sealed string) (string, error), log *logrus.Entry) *index {
	return &index{open: open, withheld: withheld{log: log, hosts: make(map[string]bool)},
		records: make(map[string]record), networks: make(map[string]network), serves: make(map[string]map[string]*service),
		lost: make(map[string]loss), nodes: make(map[string]mastercfg.Joined), joinedAt: make(map[string]int64), ends: make(ends), entries: make(map[string]string), registered: make(map[string]int),
		entered: make(map[string]string), names: make(map[string]string), recent: newRecent(),
	}
}

// apply applies one batch, and reports whether nodes have joined or were removed.
func (x *index) apply(b mirror.Batch) (nodes bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	gap := b.Snapshot || b.Another || slices.ContainsFunc(b.Events, func(e mirror.Event) bool { return e.ModRevision != b.Revision })
	if gap {
		x.recent.restart(b.Revision)
	}
	if b.Another {
		x.era++
		x.renumber(b.Revision)
	}
	for _, e := range b.Events { // networks first: a listing has endpoints before them
		if id, is := strings.CutPrefix(e.Key, mastercfg.NetworkPrefix); is && e.Value != nil {
			x.networks[id] = x.readNetwork(e.Value)
		}
	}
	for _, e := range b.Events {
		c := x.take(e, b.Revision)
		if strings.HasPrefix(e.Key, mastercfg.NodePrefix) {
			nodes = true
		}
		if !gap && (c.before != scope{} || c.after != scope{}) {
			x.recent.add(c)
		}
	}
	x.recent.advance(b.Revision)
	return nodes
}

// take applies one event. The caller holds the lock.
func (x *index) take(e mirror.Event, rev int64) change {
	c := change{rev: rev, event: eventOf(e)}
	x.setEntered(e, rev)
	byKey, indexed := scopeByKey(e.Key)
	if indexed {
		old, was := x.records[e.Key]
		now := x.recordOf(e, old)
		if was {
			c.before, c.born = old.scope, old.born
		}
		if e.Value != nil {
			c.after = now.scope
			x.records[e.Key] = now
		} else {
			delete(x.records, e.Key)
		}
		moved := old.scope != now.scope || old.vlan != now.vlan
		if moved && strings.HasPrefix(e.Key, mastercfg.EndpointPrefix) {
			x.homed(old, -1, rev)
			x.homed(now, 1, rev)
		}
		if id, is := strings.CutPrefix(e.Key, mastercfg.NetworkPrefix); is && e.Value == nil {
			delete(x.networks, id)
		}
		return c
	}
	c.before = byKey
	if e.Value != nil {
		c.after = byKey
	}
	if host, is := strings.CutPrefix(e.Key, mastercfg.NodePrefix); is {
		x.setNode(host, e, rev)
	}
	if strings.HasPrefix(e.Key, objdb.ServicePrefix) {
		x.setEntry(e.Key, e.Value)
	}
	if e.Key == mastercfg.GlobalConfigKey {
		x.setMode(e.Value, rev)
	}
	return c
}

func eventOf(e mirror.Event) *mvccpb.Event {
	kv := &mvccpb.KeyValue{Key: []byte(e.Key), Value: e.Value, ModRevision: e.ModRevision, CreateRevision: e.CreateRevision}
	if e.Value == nil {
		return &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: kv.Key, ModRevision: e.ModRevision}}
	}
	return &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: kv}
}

// readNetwork decodes the relevant fields of a network; an unreadable one has no tenant.
func (x *index) readNetwork(value []byte) network {
	var r struct{ Tenant, PktTagType, NwType string }
	_ = json.Unmarshal(value, &r)
	return network{tenant: x.name(r.Tenant), vlan: r.PktTagType == "vlan", infra: r.NwType == "infra"}
}

// recordOf returns the scope of a record. An endpoint may outlive its network, and keeps its tenant.
func (x *index) recordOf(e mirror.Event, old record) record {
	if e.Value == nil {
		return record{}
	}
	now := record{rev: e.ModRevision, born: e.CreateRevision}
	if id, is := strings.CutPrefix(e.Key, mastercfg.NetworkPrefix); is {
		now.tenant = x.networks[id].tenant
		return now
	}
	var r struct{ NetID, HomingHost, Tenant string }
	_ = json.Unmarshal(e.Value, &r) // an unreadable one has no scope
	if host, is := podHost(e.Key); is {
		now.host, now.tenant = x.name(host), x.name(r.Tenant)
		return now
	}
	now.host, now.tenant, now.vlan = x.name(r.HomingHost), old.tenant, old.vlan
	if n, known := x.networks[r.NetID]; known {
		now.tenant, now.vlan = n.tenant, n.vlan
	}
	return now
}

// scopeByValue returns the scope of a record at an old revision, from its value and the present networks.
// Unlike recordOf, it does not fall back to what the key had before. The caller holds the lock.
func (x *index) scopeByValue(key string, value []byte) scope {
	var r struct{ NetID, HomingHost, Tenant string }
	_ = json.Unmarshal(value, &r) // an unreadable one has no scope
	if strings.HasPrefix(key, mastercfg.NetworkPrefix) {
		return scope{tenant: r.Tenant}
	}
	if host, is := podHost(key); is {
		return scope{tenant: r.Tenant, host: host}
	}
	return scope{tenant: x.networks[r.NetID].tenant, host: r.HomingHost}
}

// changed returns a channel that is closed at the next change.
func (x *index) changed() <-chan struct{} {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.recent.more
}

func (x *index) setMode(value []byte, rev int64) {
	var g mastercfg.GlobConfig
	_ = json.Unmarshal(value, &g) // without one, nothing is routed
	if routing := g.FwdMode == "routing"; routing != x.routing {
		x.routing = routing
		for host, tenants := range x.serves {
			if s := tenants[everything]; s != nil {
				x.addLoss(host, rev)
				s.restart(rev)
			}
		}
	}
}
