// Package zones limits how much of the datapath's connection table the tenants of a node may use.
//
// The datapath has one connection table for all tenants. So that a tenant with very many connections leaves
// room to the others, each zone of a tenant may hold a part of the table if the node has several tenants. Other
// zones are not changed, nor is a lower limit that another program has set.
//
// What happens beyond a limit depends on the datapath. That of ovs-vswitchd forwards the packet and tracks
// nothing: a new connection to a service is dropped, as its provider would be unknown, and tiers apply to each
// packet, so that replies pass only if they are allowed themselves. The kernel drops every packet that would
// begin an entry; there the zones of tiers, which see every connection of a pod, have no limit.
//
// ovs-vswitchd drops the limits of its own datapath when it ends; the kernel keeps them. They are compared at
// each audit, and when a network is added. Only audits remove limits, as after a start the tenants are added
// one after the other; limits of a tenant without networks on the node are removed as well (noted.go).
// Connections that are older than a limit do not count.
//
//	tenants.go  tenants with networks on the node's bridges, and so zones
//	zones.go    what a bridge's tenants have, compared and set
//	rule.go     what a zone may hold
//	noted.go    which limits the driver has set, by the bridge's row
//	own.go      the same for decommissioning the node
//	metrics.go  metrics of their use
package zones

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/notify"
)

const (
	tablePart     = 4      // a zone's part of the table; a tenant has two zones
	zoneAtLeast   = 16384  // connections
	zoneOtherwise = 262144 // if the size of the table is unknown
	nearlyFull    = 90     // per cent of a zone, from which it is logged
)

// AnyNumber, as a Limit, leaves all zones without one.
const AnyNumber = -1

// kernelFile is how many connections the kernel tracks at most.
const kernelFile = "/proc/sys/net/netfilter/nf_conntrack_max"

// Config is the limits' configuration of a bridge, and the functions to read and set them.
type Config struct {
	Log           *logrus.Entry
	Bridge        string // its name
	Limit         int    // connections in a zone; 0: if there are several tenants, a part of the datapath's limit
	AuditInterval time.Duration
	Control       vswitchd.Control
	Datapath      func() string                                     // its type
	Mine          func() bool                                       // no other driver has the bridge: its limits would be that driver's
	ExternalIDs   func() map[string]string                          // of the bridge's row
	Note          func(ctx context.Context, key, text string) error // changes one of them and waits until ExternalIDs has it
}

// Bridge is a bridge of the node: the limits of the connection tracker's zones that its tenants have.
type Bridge struct {
	config Config
	node   *Tenants
	news   notify.Signal

	// of node.mu:
	whole    bool // the agent has sent the complete objects
	networks map[string]pipeline.Network
	used     map[uint16]zoneUse // as last seen
}

// zoneUse is the number of connections in a zone, and its limit; 0: none.
type zoneUse struct{ limit, count int }

// Replaced records that an object replaced another; either may be nil.
func (b *Bridge) Replaced(old, now pipeline.Object) {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	if n, is := old.(pipeline.Network); is {
		delete(b.networks, n.ID)
	}
	if n, is := now.(pipeline.Network); is {
		b.networks[n.ID] = n
		for _, bridge := range b.node.bridges {
			bridge.Look()
		}
	}
}

// Complete records that the networks are complete.
func (b *Bridge) Complete() {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	b.whole = true
}

// Look schedules a comparison of the limits: the datapath may have dropped them.
func (b *Bridge) Look() { b.news.Send() }

// zones returns those of the tenants, with the tenant and purpose of each.
func (b *Bridge) zones() map[uint16]zone {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	all := map[uint16]zone{}
	for _, n := range b.networks {
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

// Run keeps the limits until ctx is done.
func (b *Bridge) Run(ctx context.Context) error {
	again := time.NewTicker(b.config.AuditInterval)
	defer again.Stop()
	var problem string
	audit := false
	for {
		switch err := b.setLimits(ctx, audit); {
		case err == nil:
			problem = ""
		case ctx.Err() == nil && problem != err.Error():
			problem = err.Error()
			b.config.Log.WithError(err).Warn("tenants are not held to a part of the datapath's connections")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
			audit = true
		case <-b.news:
			audit = false
		}
	}
}

// setLimits corrects the limits. An audit also removes those that should not exist. While another agent has the
// bridge, the limits are that agent's.
func (b *Bridge) setLimits(ctx context.Context, audit bool) error {
	zones, given := b.zones(), notedLimits(b.config.ExternalIDs())
	if len(zones)+len(given) == 0 || !b.config.Mine() {
		return nil
	}
	// The tenants are read before the datapath's limits: a limit that another program sets before a tenant is
	// removed is then seen by the pass that sees the removal.
	rule := zoneRule{limit: b.zoneSize(ctx), chosen: b.config.Limit > 0, drops: b.config.Datapath() == vswitchd.System}
	rule.needed = rule.chosen || b.config.Limit != AnyNumber && b.node.several()
	used, err := zoneUses(ctx, b.config.Control, b.datapath())
	if err != nil {
		return err
	}
	b.noteUse(zones, used)
	return b.changeLimits(ctx, rule.changes(zones, given, used, audit, b.node.without))
}

// noteUse stores the use of zones for the metrics, and warns of zones that become nearly full.
func (b *Bridge) noteUse(zones map[uint16]zone, used map[uint16]zoneUse) {
	b.node.mu.Lock()
	before := b.used
	b.used = used
	b.node.mu.Unlock()
	for number, z := range zones {
		if now := used[number]; now.nearlyFull() && !before[number].nearlyFull() {
			b.config.Log.Warnf("%d of at most %d %s: when there are no more, new ones to services are dropped, and answers to others may be", now.count, now.limit, z)
		}
	}
}

func (u zoneUse) nearlyFull() bool { return u.limit > 0 && u.count >= u.limit*nearlyFull/100 }

// datapath returns the name of the bridge's datapath.
func (b *Bridge) datapath() string { return vswitchd.DatapathNamed(b.config.Datapath()) }

// zoneUses reads the limits of a datapath.
func zoneUses(ctx context.Context, control vswitchd.Control, datapath string) (map[uint16]zoneUse, error) {
	text, err := control.Call(ctx, "dpctl/ct-get-limits", datapath)
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

// zoneSize returns how many connections a limited zone may hold.
func (b *Bridge) zoneSize(ctx context.Context) int {
	if b.config.Limit > 0 {
		return b.config.Limit
	}
	var text string
	if b.config.Datapath() == vswitchd.System {
		read, err := os.ReadFile(kernelFile)
		if err != nil {
			return zoneOtherwise
		}
		text = string(read)
	} else if text, _ = b.config.Control.Call(ctx, "dpctl/ct-get-maxconns", b.datapath()); text == "" {
		return zoneOtherwise
	}
	all, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || all == 0 {
		return zoneOtherwise
	}
	return max(all/tablePart, zoneAtLeast)
}
