package ovsd

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/notify"
)

// The datapath has one table of connections for all tenants of the node. So that one that opens very many leaves the
// others theirs, each zone of a tenant holds a part of the table at most, where the node has several tenants. Other zones
// are left alone, as others may use them, and so is a limit that somebody has set and that is lower.
//
// What happens beyond a limit is the datapath's. That in ovs-vswitchd goes on with the packet and remembers nothing: a new
// connection to a service is dropped, as nobody would know its provider, and what tiers judge is judged packet by packet,
// so that answers come only where they are allowed themselves. The kernel drops whatever was to be remembered. There tiers,
// which see every connection of a pod, have no limit.
//
// ovs-vswitchd forgets limits of its own datapath when it ends, the kernel keeps them. They are compared at each audit, and
// when a network comes; only audits take some away, as after a start the tenants come one after the other. Those of a tenant
// that has no networks here any more go as well (givenlimits.go). Connections from before there was a limit are not counted.
const (
	tablePart     = 4      // a zone's part of the table; a tenant has two zones
	zoneAtLeast   = 16384  // connections
	zoneOtherwise = 262144 // where nobody says how many the table holds
	nearlyFull    = 90     // per cent of a zone, from where on the log says so
)

// AnyNumber, as a ZoneLimit, leaves all zones without one.
const AnyNumber = -1

// connectionsFile is how many connections the kernel tracks at most.
const connectionsFile = "/proc/sys/net/netfilter/nf_conntrack_max"

// Tenants are those whose networks the bridges of a node have.
type Tenants struct {
	mu      sync.Mutex
	bridges []*zoneLimits
}

// addBridge adds a bridge.
func (t *Tenants) addBridge() *zoneLimits {
	s := &zoneLimits{node: t, news: notify.New(), networks: map[string]pipeline.Network{}, used: map[uint16]zoneUse{}}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bridges = append(t.bridges, s)
	return s
}

// several tells whether there is more than one.
func (t *Tenants) several() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	vrfs := map[uint16]bool{}
	for _, s := range t.bridges {
		for _, n := range s.networks {
			vrfs[n.VRF] = true
		}
	}
	return len(vrfs) > 1
}

// without tells whether no tenant has a zone. It is false until that is known of all bridges.
func (t *Tenants) without(zone uint16) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.bridges {
		if !s.whole {
			return false
		}
		for _, n := range s.networks {
			if zones := pipeline.Zones(n.VRF); slices.Contains(zones[:], zone) {
				return false
			}
		}
	}
	return true
}

// zoneLimits are the limits of the connection tracker's zones that the tenants of one bridge have.
type zoneLimits struct {
	node *Tenants
	news notify.Signal

	// of node.mu:
	whole    bool // the agent has said what it wants as a whole
	networks map[string]pipeline.Network
	used     map[uint16]zoneUse // as last seen
}

// zoneUse is how many connections of a zone there are, and may be; 0: any number.
type zoneUse struct{ limit, count int }

// replace takes note that an object took the place of another; either may be nil.
func (s *zoneLimits) replace(old, now pipeline.Object) {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	if n, is := old.(pipeline.Network); is {
		delete(s.networks, n.ID)
	}
	if n, is := now.(pipeline.Network); is {
		s.networks[n.ID] = n
		for _, bridge := range s.node.bridges {
			bridge.news.Send()
		}
	}
}

// complete takes note that the networks are all that there are.
func (s *zoneLimits) complete() {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.whole = true
}

// zones are those of the tenants, with words for each.
func (s *zoneLimits) zones() map[uint16]zone {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	all := map[uint16]zone{}
	for _, n := range s.networks {
		tenant := n.Tenant
		if n.VRF == pipeline.SharedVRF {
			tenant = "" // of all that have routed VLANs
		}
		for i, number := range pipeline.Zones(n.VRF) {
			all[number] = zone{tenant, [...]string{forServices, forPolicies}[i]}
		}
	}
	return all
}

// zone is what the connections of a zone are for.
type zone struct{ tenant, of string }

const (
	forServices = "services"
	forPolicies = "policies"
)

func (z zone) String() string {
	if z.tenant == "" {
		return "connections in routed VLANs, for " + z.of
	}
	return fmt.Sprintf("connections of tenant %s, for %s", z.tenant, z.of)
}

// keepZoneLimits keeps the limits until ctx is done.
func (d *Driver) keepZoneLimits(ctx context.Context) error {
	again := time.NewTicker(d.config.AuditInterval)
	defer again.Stop()
	var problem string
	audit := false
	for {
		switch err := d.setZoneLimits(ctx, audit); {
		case err == nil:
			problem = ""
		case ctx.Err() == nil && problem != err.Error():
			problem = err.Error()
			d.log.WithError(err).Warn("tenants are not held to a part of the datapath's connections")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
			audit = true
		case <-d.zoneLimits.news:
			audit = false
		}
	}
}

// setZoneLimits sets the limits that are not as they should be. An audit takes away what there should not be, too. While
// another agent has the bridge, they are its.
func (d *Driver) setZoneLimits(ctx context.Context, audit bool) error {
	zones, given := d.zoneLimits.zones(), d.db.givenLimits()
	if len(zones)+len(given) == 0 || !d.db.client.Owner() {
		return nil
	}
	used, err := d.config.zoneUses(ctx, d.datapath())
	if err != nil {
		return err
	}
	d.noteUse(zones, used)
	rule := zoneRule{limit: d.zoneSize(ctx), chosen: d.config.ZoneLimit > 0, drops: d.datapathType() == DatapathSystem}
	rule.needed = rule.chosen || d.config.ZoneLimit != AnyNumber && d.zoneLimits.node.several()
	return d.changeLimits(ctx, rule.changes(zones, given, used, audit, d.zoneLimits.node.without))
}

// limitChange is what is to be done about limits.
type limitChange struct {
	set  limits
	gone limits // that are taken away
	ours limits // that a driver has set, when all is done
}

// changes tells what differs from what zones of tenants should have, and what is left of others.
func (r zoneRule) changes(zones map[uint16]zone, given limits, used map[uint16]zoneUse, audit bool, left func(zone uint16) bool) limitChange {
	c := limitChange{set: limits{}, gone: limits{}, ours: limits{}}
	end := func(zone uint16, now int, ends bool) {
		if ends && audit {
			c.gone[zone] = now
		} else {
			c.ours[zone] = now
		}
	}
	for number, z := range zones {
		now := used[number].limit
		switch limit := r.of(z, now, given[number]); {
		case limit == 0 && now > 0:
			end(number, now, true)
		case limit > 0 && limit == r.limit:
			c.ours[number] = limit
			if limit != now {
				c.set[number] = limit
			}
		}
	}
	for number, limit := range given {
		if _, has := zones[number]; !has && used[number].limit == limit {
			end(number, limit, left(number))
		}
	}
	return c
}

// zoneRule is what the zones of tenants may hold.
type zoneRule struct {
	limit  int
	needed bool // there are tenants to be protected from each other
	chosen bool // the limit is the operator's, who may want more than there was before
	drops  bool // the datapath drops what it has no room for
}

// of is the limit that a zone should have, which has one now and may have been given one by us; 0: none.
func (r zoneRule) of(z zone, now, given int) int {
	ours := now == r.limit || now == given
	switch wanted := r.needed && (z.of == forServices || !r.drops); {
	case now == 0 && !wanted, ours && !wanted:
		return 0
	case now == 0, ours, wanted && (r.chosen || now > r.limit):
		return r.limit
	}
	return now
}

// noteUse keeps what is used for the metrics, and warns of zones that become nearly full.
func (d *Driver) noteUse(zones map[uint16]zone, used map[uint16]zoneUse) {
	d.zoneLimits.node.mu.Lock()
	before := d.zoneLimits.used
	d.zoneLimits.used = used
	d.zoneLimits.node.mu.Unlock()
	for number, z := range zones {
		if now := used[number]; now.nearlyFull() && !before[number].nearlyFull() {
			d.log.Warnf("%d of at most %d %s: when there are no more, new ones to services are dropped, and answers to others may be", now.count, now.limit, z)
		}
	}
}

func (u zoneUse) nearlyFull() bool { return u.limit > 0 && u.count >= u.limit*nearlyFull/100 }

// datapath is the name of the bridge's datapath.
func (d *Driver) datapath() string { return datapathNamed(d.datapathType()) }

// datapathNamed is the name of the datapath that ovs-vswitchd has of a type.
func datapathNamed(kind string) string { return kind + "@ovs-" + kind }

// zoneUses asks a datapath for its limits.
func (c Config) zoneUses(ctx context.Context, datapath string) (map[uint16]zoneUse, error) {
	text, err := c.vswitchd().Call(ctx, "dpctl/ct-get-limits", datapath)
	if err != nil {
		return nil, err
	}
	all := map[uint16]zoneUse{}
	for line := range strings.Lines(text) {
		var number uint16
		var use zoneUse
		if _, err := fmt.Sscanf(line, "zone=%d,limit=%d,count=%d", &number, &use.limit, &use.count); err == nil {
			all[number] = use
		}
	}
	return all, nil
}

// zoneSize is how many connections a zone that is limited may hold.
func (d *Driver) zoneSize(ctx context.Context) int {
	if d.config.ZoneLimit > 0 {
		return d.config.ZoneLimit
	}
	var text string
	if d.datapathType() == DatapathSystem {
		read, err := os.ReadFile(connectionsFile)
		if err != nil {
			return zoneOtherwise
		}
		text = string(read)
	} else if text, _ = d.config.vswitchd().Call(ctx, "dpctl/ct-get-maxconns", d.datapath()); text == "" {
		return zoneOtherwise
	}
	all, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || all == 0 {
		return zoneOtherwise
	}
	return max(all/tablePart, zoneAtLeast)
}

var (
	connectionsDesc = prometheus.NewDesc("netplugin_tracked_connections",
		"Connections that the datapath tracks on this node, as of the last audit, where they are limited, by tenant (none: in routed VLANs) and what for.", []string{"bridge", "tenant", "for"}, nil)
	connectionsLimitDesc = prometheus.NewDesc("netplugin_tracked_connections_limit",
		"How many of these there may be.", []string{"bridge", "tenant", "for"}, nil)
)

// collectZones tells what is used of each zone.
func (d *Driver) collectZones(to chan<- prometheus.Metric) {
	zones := d.zoneLimits.zones()
	d.zoneLimits.node.mu.Lock()
	defer d.zoneLimits.node.mu.Unlock()
	for number, z := range zones {
		if use, known := d.zoneLimits.used[number]; known {
			to <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(use.count), d.config.Bridge, z.tenant, z.of)
			to <- prometheus.MustNewConstMetric(connectionsLimitDesc, prometheus.GaugeValue, float64(use.limit), d.config.Bridge, z.tenant, z.of)
		}
	}
}
