package gate

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
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

// index is what the gate knows of the state: of records, whose they are; of nodes, what they
// serve and how they have joined; of changes, the last ones.
type index struct {
	mu         sync.RWMutex
	records    map[string]record              // by key; of the kinds whose value says whose they are
	networks   map[string]network             // by id
	serves     map[string]map[string]*service // host -> tenant
	lost       map[string]loss                // by host
	nodes      map[string]mastercfg.Joined    // by host
	joinedAt   map[string]int64               // host -> revision of its record
	ends       ends                           // of tunnels of nodes
	entries    map[string]string              // key of a registration -> host
	registered map[string]int                 // host -> how many registrations it has
	entered    map[string]string              // key of what every node has a part in -> its tenant
	routing    bool                           // VLANs are routed
	era        int                            // of the store's history
	names      map[string]string              // one copy of each name
	sweepAt    int                            // so many names are looked through for those that nothing has any more
	recent     recent
	open       func(place, sealed string) (string, error) // of the keyring
	withheld   withheld
	spread     time.Duration // in which nodes, one after the other, hear of what all have lost
}

// record is whose a record is.
type record struct {
	scope
	vlan bool  // of an endpoint: its network is a VLAN
	rev  int64 // at which it was written
	born int64 // at which it was made: before, its key may have been that of somebody else's record
}

type network struct {
	tenant string
	vlan   bool
	infra  bool // every host has an endpoint in it
}

// loss is when what a node may see became less.
type loss struct {
	times int
	at    int64     // revision, of the last time
	when  time.Time // the last time
}

// service is what a node has of a tenant.
type service struct {
	endpoints int
	since     int64     // revision
	gone      time.Time // the last endpoint, while there is none
}

func newIndex(open func(place, sealed string) (string, error), log *logrus.Entry) *index {
	return &index{open: open, withheld: withheld{log: log, hosts: make(map[string]bool)},
		records: make(map[string]record), networks: make(map[string]network), serves: make(map[string]map[string]*service),
		lost: make(map[string]loss), nodes: make(map[string]mastercfg.Joined), joinedAt: make(map[string]int64), ends: make(ends), entries: make(map[string]string), registered: make(map[string]int),
		entered: make(map[string]string), names: make(map[string]string), recent: newRecent(),
	}
}

// apply takes in one batch, and tells whether nodes have joined or were removed.
func (x *index) apply(b mirror.Batch) (nodes bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	gap := b.Snapshot || b.Another || slices.ContainsFunc(b.Events, func(e mirror.Event) bool { return e.ModRevision != b.Revision })
	if gap {
		x.recent.restart(b.Revision)
	}
	if b.Another {
		x.era++
	}
	for _, e := range b.Events { // a listing has endpoints before their networks
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

// take takes in one event. The lock is held.
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

// readNetwork reads what matters of a network; of one that cannot be read nobody is the tenant.
func (x *index) readNetwork(value []byte) network {
	var r struct{ Tenant, PktTagType, NwType string }
	_ = json.Unmarshal(value, &r)
	return network{tenant: x.name(r.Tenant), vlan: r.PktTagType == "vlan", infra: r.NwType == "infra"}
}

// recordOf says whose a record is. An endpoint may outlive its network, whose tenant it had.
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
	_ = json.Unmarshal(e.Value, &r) // of one that cannot be read, nobody
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

// name keeps one copy of a name, which thousands of records have.
func (x *index) name(text string) string {
	if kept, ok := x.names[text]; ok {
		return kept
	}
	if len(x.names) >= x.sweepAt {
		x.sweepNames()
	}
	x.names[text] = text
	return text
}

// fewNames are so many that they are not looked through.
const fewNames = 1024

// sweepNames forgets the names that nothing has any more, as those of nodes that are gone. It walks all
// records, so it is done only when there are twice as many names as were in use the last time.
func (x *index) sweepNames() {
	used := make(map[string]string)
	for _, r := range x.records {
		used[r.host], used[r.tenant] = r.host, r.tenant
	}
	for _, n := range x.networks {
		used[n.tenant] = n.tenant
	}
	for _, tenant := range x.entered {
		used[tenant] = tenant
	}
	x.names, x.sweepAt = used, max(fewNames, 2*len(used))
}

// homed counts an endpoint of a node.
func (x *index) homed(r record, step int, rev int64) {
	if r.host == "" || r.tenant == "" {
		return
	}
	x.serve(r.host, r.tenant, step, rev)
	if r.vlan {
		x.serve(r.host, everything, step, rev)
	}
}

func (x *index) serve(host, tenant string, step int, rev int64) {
	if x.serves[host] == nil {
		x.serves[host] = make(map[string]*service)
	}
	s := x.serves[host][tenant]
	if s == nil {
		s = &service{since: rev}
		x.serves[host][tenant] = s
	}
	if s.endpoints == 0 { // also while it lingers: another gate may have let go of it, and the node may have listed there
		s.since = rev
	}
	s.endpoints += step
	s.gone = time.Time{}
	if s.endpoints == 0 {
		s.gone = time.Now()
	}
}

// everyNode stands for all hosts among those that serve a tenant; no host has this name. With the first service that
// hosts lead to, all nodes that did not have the tenant need its records at once, and list again, of which a gate does
// scansAtOnce at a time. When a tenant has none any more, they list again one after the other, in x.spread: the network
// that a node does not hear of any more may go, and another one come with its number.
const everyNode = ""

// setEntered notes which tenants every node serves.
func (x *index) setEntered(e mirror.Event, rev int64) {
	now, old := x.enteredBy(e), x.entered[e.Key]
	if old == now {
		return
	}
	if now == "" {
		delete(x.entered, e.Key)
	} else {
		x.entered[e.Key] = x.name(now)
		x.serve(everyNode, now, 1, rev)
	}
	if old != "" {
		x.serve(everyNode, old, -1, rev)
	}
}

// enteredBy is the tenant that every node serves because of a record: of a service of Kubernetes, of one that has ports
// of nodes or addresses outside, of an infra network, in which each host makes its own endpoint when it sees it; "" is none.
func (x *index) enteredBy(e mirror.Event) string {
	if e.Value == nil {
		return ""
	}
	if id, is := strings.CutPrefix(e.Key, mastercfg.K8sServicePrefix); is {
		tenant, _, _ := strings.Cut(id, "/")
		return tenant
	}
	if id, is := strings.CutPrefix(e.Key, mastercfg.ServiceLBPrefix); is {
		var s mastercfg.CfgServiceLBState
		if json.Unmarshal(e.Value, &s) == nil && len(s.NodePorts)+len(s.ExternalIPs) > 0 {
			return afterColon(id).tenant
		}
	}
	if id, is := strings.CutPrefix(e.Key, mastercfg.NetworkPrefix); is && x.networks[id].infra {
		return x.networks[id].tenant
	}
	return ""
}

// more is closed when something has changed.
func (x *index) more() <-chan struct{} {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.recent.more
}

// prune forgets what was not served since a time.
func (x *index) prune(since time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for host, tenants := range x.serves {
		before := len(tenants)
		maps.DeleteFunc(tenants, func(_ string, s *service) bool { return s.endpoints == 0 && s.gone.Before(since) })
		if len(tenants) < before {
			x.lose(host, x.recent.revision)
		}
		if len(tenants) == 0 {
			delete(x.serves, host)
		}
	}
	x.recent.wake()
}

func (x *index) lose(host string, rev int64) {
	x.lost[host] = loss{x.lost[host].times + 1, rev, time.Now()}
}

// setNode notes how a node has joined, or that it was removed: whoever has the name next may see more, or less.
func (x *index) setNode(host string, e mirror.Event, rev int64) {
	old, was := x.nodes[host]
	x.ends.remove(host, old)
	var joined mastercfg.Joined
	if e.Value == nil || json.Unmarshal(e.Value, &joined) != nil {
		if was {
			x.lose(host, rev)
		}
		delete(x.nodes, host)
		delete(x.joinedAt, host)
		return
	}
	if !slices.Equal(old.Tenants, joined.Tenants) {
		x.lose(host, rev)
	}
	x.nodes[host], x.joinedAt[host] = joined, e.ModRevision
	x.ends.add(host, joined)
}

// setEntry notes who has registered under a key. Its cost does not depend on how many hosts have: a listing brings
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

func (x *index) setMode(value []byte, rev int64) {
	var g mastercfg.GlobConfig
	_ = json.Unmarshal(value, &g) // without one, nothing is routed
	if routing := g.FwdMode == "routing"; routing != x.routing {
		x.routing = routing
		for host, tenants := range x.serves {
			if s := tenants[everything]; s != nil {
				x.lose(host, rev)
				s.since = rev
			}
		}
	}
}

// holds tells whether a node has the key that its name belongs to.
func (x *index) holds(host, key string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.isOf(host, key)
}

// isOf is holds while the lock is held.
func (x *index) isOf(host, key string) bool {
	joined, known := x.nodes[host]
	return known && key != "" && joined.Key == key
}

// scopeOf is whose a record is, or was while its deletion is among the recent changes, as it was at a revision: nobody's, if
// the record of its key was another one then. The lock is held.
func (x *index) scopeOf(key string, at int64) scope {
	byKey, indexed := scopeByKey(key)
	if !indexed {
		return byKey
	}
	r, there := x.records[key]
	if !there {
		r = x.recent.gone[key]
	}
	if at < r.born {
		return scope{}
	}
	return r.scope
}

// sees tells whether a node may see a record, with what it has served before a revision. The lock is held.
func (x *index) sees(host string, s scope, before int64) bool {
	switch {
	case s.all, s.host == host && host != "":
		return true
	case s.tenant == "":
		return false
	}
	if !x.may(host, s.tenant) {
		return false
	}
	served := func(by, tenant string) bool {
		have := x.serves[by][tenant]
		return have != nil && have.since < before
	}
	return served(host, s.tenant) || served(everyNode, s.tenant) || x.routing && served(host, everything)
}

// may tells whether a node has joined for a tenant: a token without tenants is for all. The lock is held.
func (x *index) may(host, tenant string) bool {
	joined, known := x.nodes[host]
	return known && joined.Serves(tenant)
}

// grown is the last revision, of those from one on, at which a node came to serve a tenant that it did not see before; 0: it
// did not. The lock is held.
func (x *index) grown(host string, from int64) (last int64) {
	for _, by := range []string{host, everyNode} {
		for tenant, s := range x.serves[by] {
			if counts := tenant == everything && x.routing || tenant != everything && x.may(host, tenant); counts &&
				s.since >= from && !x.sees(host, scope{tenant: tenant}, from) {
				last = max(last, s.since)
			}
		}
	}
	return last
}

// lostBy is what a node has lost, by itself and with all others, as far as it has to know now. The lock is held.
func (x *index) lostBy(host string, now time.Time) loss {
	own, all := x.lost[host], x.lost[everyNode]
	if past := now.Sub(all.when); past < x.spread && past < x.turn(host) {
		all = loss{times: all.times - 1}
	}
	return loss{times: own.times + all.times, at: max(own.at, all.at)}
}

// turn is when, within the spread, a node hears of what all have lost.
func (x *index) turn(host string) time.Duration {
	sum := sha256.Sum256([]byte(host))
	return time.Duration(float64(x.spread) * float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32))
}
