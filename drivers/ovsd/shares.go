package ovsd

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/bell"
)

// The datapath has one table of connections for all tenants of the node. So that one that opens very many leaves the
// others theirs, each zone of a tenant holds a part of the table at most. Beyond it nothing new is remembered: a new
// connection to a service is dropped, as nobody would know its provider, and what tiers judge is judged packet by
// packet, so that answers come only where they are allowed themselves. Other zones are left alone, as others may use
// them.
//
// ovs-vswitchd forgets limits when it ends. They are compared at each audit, and when a network of another tenant comes.
const (
	tablePart     = 4      // a zone's part of the table; a tenant has two zones
	zoneAtLeast   = 16384  // connections
	zoneOtherwise = 262144 // where nobody says how many the table holds
	nearlyFull    = 90     // per cent of a zone, from where on the log says so
)

// connectionsFile is how many connections the kernel tracks at most.
const connectionsFile = "/proc/sys/net/netfilter/nf_conntrack_max"

// shares are the tenants whose networks the bridge has.
type shares struct {
	news bell.Bell

	mu       sync.Mutex
	networks map[string]pipeline.Network
	used     map[uint16]zoneUse // as last seen
}

// zoneUse is how many connections of a zone there are, and may be; 0: any number.
type zoneUse struct{ limit, count int }

func newShares() *shares {
	return &shares{news: bell.New(), networks: map[string]pipeline.Network{}, used: map[uint16]zoneUse{}}
}

// replace takes note that an object took the place of another; either may be nil.
func (s *shares) replace(old, now pipeline.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, is := old.(pipeline.Network); is {
		delete(s.networks, n.ID)
	}
	if n, is := now.(pipeline.Network); is {
		s.networks[n.ID] = n
		s.news.Ring()
	}
}

// zones are those of the tenants, with words for each.
func (s *shares) zones() map[uint16]zone {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[uint16]zone{}
	for _, n := range s.networks {
		tenant := n.Tenant
		if n.VRF == pipeline.SharedVRF {
			tenant = "" // of all that have routed VLANs
		}
		for i, number := range pipeline.Zones(n.VRF) {
			all[number] = zone{tenant, [...]string{"services", "policies"}[i]}
		}
	}
	return all
}

// zone is what the connections of a zone are for.
type zone struct{ tenant, of string }

func (z zone) String() string {
	if z.tenant == "" {
		return "connections in routed VLANs, for " + z.of
	}
	return fmt.Sprintf("connections of tenant %s, for %s", z.tenant, z.of)
}

// share keeps the limits until ctx is done.
func (d *Driver) share(ctx context.Context) error {
	again := time.NewTicker(d.config.AuditInterval)
	defer again.Stop()
	var problem string
	for {
		err := d.limitZones(ctx)
		if err != nil && ctx.Err() == nil && problem != err.Error() {
			problem = err.Error()
			d.log.WithError(err).Warn("tenants are not held to a part of the datapath's connections")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		case <-d.shares.news:
		}
	}
}

// limitZones sets the limits that are not as they should be.
func (d *Driver) limitZones(ctx context.Context) error {
	zones := d.shares.zones()
	if len(zones) == 0 {
		return nil
	}
	used, err := d.zoneUses(ctx)
	if err != nil {
		return err
	}
	limit := d.zoneLimit(ctx)
	args := []string{d.datapath()}
	for _, number := range slices.Sorted(maps.Keys(zones)) {
		if used[number].limit != limit {
			args = append(args, fmt.Sprintf("zone=%d,limit=%d", number, limit))
		}
	}
	d.noteUse(zones, used)
	if len(args) == 1 {
		return nil
	}
	_, err = d.config.appctl(ctx, "dpctl/ct-set-limits", args...)
	return err
}

// noteUse keeps what is used for the metrics, and warns of zones that become nearly full.
func (d *Driver) noteUse(zones map[uint16]zone, used map[uint16]zoneUse) {
	d.shares.mu.Lock()
	before := d.shares.used
	d.shares.used = used
	d.shares.mu.Unlock()
	for number, z := range zones {
		if now := used[number]; now.nearlyFull() && !before[number].nearlyFull() {
			d.log.Warnf("%d of at most %d %s: when there are no more, new ones to services are dropped, and answers to others may be", now.count, now.limit, z)
		}
	}
}

func (u zoneUse) nearlyFull() bool { return u.limit > 0 && u.count >= u.limit*nearlyFull/100 }

// datapath is the name of the bridge's datapath.
func (d *Driver) datapath() string {
	kind := d.datapathType()
	return kind + "@ovs-" + kind
}

// zoneUses asks the datapath for its limits.
func (d *Driver) zoneUses(ctx context.Context) (map[uint16]zoneUse, error) {
	text, err := d.config.appctl(ctx, "dpctl/ct-get-limits", d.datapath())
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

// zoneLimit is how many connections a zone may hold.
func (d *Driver) zoneLimit(ctx context.Context) int {
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
	} else if text, _ = d.config.appctl(ctx, "dpctl/ct-get-maxconns", d.datapath()); text == "" {
		return zoneOtherwise
	}
	all, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || all == 0 {
		return zoneOtherwise
	}
	return max(all/tablePart, zoneAtLeast)
}

var (
	connectionsDesc = prometheus.NewDesc("contiv_tracked_connections",
		"Connections that the datapath tracks on this node, as of the last audit, by tenant (none: in routed VLANs) and what for.", []string{"bridge", "tenant", "for"}, nil)
	connectionsLimitDesc = prometheus.NewDesc("contiv_tracked_connections_limit",
		"How many of these there may be.", []string{"bridge", "tenant", "for"}, nil)
)

// collect tells what is used of each zone.
func (d *Driver) collectShares(to chan<- prometheus.Metric) {
	zones := d.shares.zones()
	d.shares.mu.Lock()
	defer d.shares.mu.Unlock()
	for number, z := range zones {
		if use, known := d.shares.used[number]; known {
			to <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(use.count), d.config.Bridge, z.tenant, z.of)
			to <- prometheus.MustNewConstMetric(connectionsLimitDesc, prometheus.GaugeValue, float64(use.limit), d.config.Bridge, z.tenant, z.of)
		}
	}
}
