package gate

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/mirror"
)

// loss counts how often a node has ceased to serve a tenant,
// so that it sees fewer records, and when the last time was.
type loss struct {
	times int
	at    int64     // revision of the last time
	when  time.Time // the last time
}

// service is the number of endpoints of a tenant on a node, and since when the node serves it.
type service struct {
	endpoints int
	gone      time.Time // when the last endpoint was removed; zero while there are some
	served
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
		s = &service{}
		x.serves[host][tenant] = s
	}
	if s.endpoints == 0 {
		s.begin(rev)
	}
	s.endpoints += step
	s.gone = time.Time{}
	if s.endpoints == 0 {
		s.gone, s.until = time.Now(), rev
	}
}

// everyNode stands for all hosts among those that serve a tenant; no host has this name. With the first service
// that hosts reach, all nodes without the tenant need its records at once, and list again; a gate serves
// scansAtOnce of them at a time. When the last such service is removed, they list again one after the other,
// within x.spread, because a node must notice when a network that it does not see any more is deleted and its
// number is assigned to another one.
const everyNode = ""

// setEntered updates which tenants every node serves.
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

// enteredBy returns the tenant that every node serves because of a record: a
// Kubernetes service, a service with node ports or external addresses, or an infra
// network, in which each host creates its own endpoint when it sees it; "": none.
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

// prune drops tenants that were not served since a time.
func (x *index) prune(since time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for host, tenants := range x.serves {
		before := len(tenants)
		maps.DeleteFunc(tenants, func(_ string, s *service) bool { return s.endpoints == 0 && s.gone.Before(since) })
		if len(tenants) < before {
			x.addLoss(host, x.recent.revision)
		}
		if len(tenants) == 0 {
			delete(x.serves, host)
		}
	}
	x.recent.wake()
}

func (x *index) addLoss(host string, rev int64) {
	x.lost[host] = loss{x.lost[host].times + 1, rev, time.Now()}
}

// lossesOf returns the losses of a node: its own and those of all nodes, unless its turn to learn of the latter
// is still to come. The caller holds the lock.
func (x *index) lossesOf(host string, now time.Time) loss {
	own, all := x.lost[host], x.lost[everyNode]
	if past := now.Sub(all.when); past < x.spread && past < x.turn(host) {
		all = loss{times: all.times - 1}
	}
	return loss{times: own.times + all.times, at: max(own.at, all.at)}
}

// renumber forgets the revisions of another history of the store: compared with those of the present one, which may be
// lower, they would make nodes list again until the store has reached them. The caller holds the lock.
func (x *index) renumber(rev int64) {
	for _, tenants := range x.serves {
		for _, s := range tenants {
			s.restart(rev)
		}
	}
	for host, l := range x.lost {
		l.at = rev
		x.lost[host] = l
	}
	x.sighted = sighting{}
}

// hasLostSince reports whether a node has ceased to serve a tenant after a revision of the past.
func (x *index) hasLostSince(host string, rev int64) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return rev > 0 && x.lossesOf(host, time.Now()).at > rev
}

// turn returns when, within the spread, a node learns of a loss of all nodes.
func (x *index) turn(host string) time.Duration {
	sum := sha256.Sum256([]byte(host))
	return time.Duration(float64(x.spread) * float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32))
}
