package agent

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/nameserver"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// Attachment is an endpoint that forwards: its port, and what to configure in the pod. The network's record is
// without its address maps.
type Attachment struct {
	Port     drivers.Port
	Endpoint mastercfg.CfgEndpointState
	Network  mastercfg.CfgNetworkState
	VRF      uint16 // number of the tenant's routing domain
	// Name servers of the endpoint, and the domain of its tenant; empty without a name server.
	NameServers []netip.Addr
	Domain      string
}

// PreparePort creates the link and the switch port of an endpoint; podNetNS is a descriptor of the network
// namespace for the pod's end (0: the agent's own). It does not need the endpoint's record, so it can run while
// netmaster creates that.
func (a *Agent) PreparePort(ctx context.Context, epID string, podNetNS int) (drivers.Port, error) {
	if err := a.Ready(); err != nil {
		return drivers.Port{}, err
	}
	unlock, err := a.ports.Lock(ctx, epID)
	if err != nil {
		return drivers.Port{}, explain(err, "port of endpoint %s", epID)
	}
	defer unlock()
	encap, err := a.awaitEncap(ctx, epID)
	if err != nil {
		return drivers.Port{}, err
	}
	a.claim(epID)
	defer a.noteAdded()
	return a.cfg.Driver.AddPort(ctx, encap, epID, podNetNS)
}

// awaitEncap waits until the encapsulation of an endpoint's network is known, which selects the bridge. A node
// with one bridge does not wait.
func (a *Agent) awaitEncap(ctx context.Context, epID string) (pipeline.Encap, error) {
	for a.cfg.Uplink {
		a.mu.Lock()
		network, known := a.cache.networkOf(epID)
		news := a.news
		a.mu.Unlock()
		if known {
			return network.part.Encap, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0, explain(ctx.Err(), "port of endpoint %s: its network is not known", epID)
		}
	}
	return pipeline.VXLAN, nil
}

// networkOf finds the network of an endpoint by its record or, before the record arrives, by its id, which joins the
// ids of network and container by a dash. That is ambiguous if there may be dashes on both sides: web.blue-a-1 is
// container a-1 in a network of tenant blue, or container 1 in one of tenant blue-a. If these may be on different bridges,
// only the record tells.
func (c *cache) networkOf(epID string) (network, bool) {
	if e, known := c.endpoints[epID]; known {
		n, known := c.networks[e.netID]
		return n, known
	}
	last := strings.LastIndexByte(epID, '-')
	n, known := c.networks[epID[:max(last, 0)]]
	for end := last - 1; known && end > 0; end-- {
		if other, too := c.networks[epID[:end]]; too && epID[end] == '-' && other.part.Encap != n.part.Encap {
			return network{}, false
		}
	}
	return n, known
}

// awaitFlows waits until the switch has the objects that an endpoint needs to forward. It waits for rules of
// policies first, then for the endpoint, which the driver programs before everything else.
func (a *Agent) awaitFlows(ctx context.Context, epID string, network mastercfg.CfgNetworkState) error {
	a.mu.Lock()
	policies := a.cache.tiers.rulesAbout(epID)
	own, rules := a.cache.programmedFirst(epID, network)
	a.mu.Unlock()
	if err := a.awaitRules(ctx, policies, "policies about endpoint "+epID); err != nil {
		return err
	}
	if err := a.cfg.Driver.Sync(ctx, own...); err != nil {
		return explain(err, "flows of endpoint %s", epID)
	}
	if len(rules) == 0 {
		return nil
	}
	if err := a.awaitRules(ctx, rules, "rules of tenant "+network.Tenant); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cache.tenants.ruled[network.Tenant] = a.cache.tenants.present(network.Tenant)
	return nil
}

// awaitRules waits until the switch has the rules. A rule that the switch refuses is logged by the driver and
// does not prevent the attachment.
func (a *Agent) awaitRules(ctx context.Context, rules []pipeline.Key, what string) error {
	if len(rules) == 0 {
		return nil
	}
	if err := a.cfg.Driver.Sync(ctx, rules...); err != nil && (ctx.Err() != nil || fault.Is(err, fault.Unavailable)) {
		return explain(err, "%s", what)
	}
	return nil
}

// claim protects an endpoint's port from the reaper until Detach.
func (a *Agent) claim(epID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held.claimed[epID] = struct{}{}
}

// Await waits until this node has read the store up to a revision, which should be that of netmaster's answer
// (0: not known), and knows an endpoint of its own with everything that it needs. The attachment has no port.
func (a *Agent) Await(ctx context.Context, epID string, revision int64) (Attachment, error) {
	if err := a.mirrors[0].WaitRevision(ctx, revision); err != nil {
		return Attachment{}, explain(err, "endpoint %s: store revision %d has not arrived", epID, revision)
	}
	return a.awaitEndpoint(ctx, epID, revision > 0)
}

// Attach awaits an endpoint and programs it. The port must exist; it is kept from then on until Detach. Attach
// is idempotent.
func (a *Agent) Attach(ctx context.Context, epID string, revision int64) (Attachment, error) {
	if err := a.Ready(); err != nil {
		return Attachment{}, err
	}
	start := time.Now()
	at, err := a.Await(ctx, epID, revision)
	if err != nil {
		return Attachment{}, err
	}
	a.claim(epID)
	if at.Port, err = a.cfg.Driver.FindPort(ctx, epID); err != nil {
		return Attachment{}, err
	}
	a.programDirty()
	if err := a.awaitFlows(ctx, epID, at.Network); err != nil {
		return Attachment{}, err
	}
	a.mu.Lock()
	a.held.attached[epID] = at
	a.mu.Unlock()
	a.metrics.attach.Observe(time.Since(start).Seconds())
	a.report.Send()
	return at, nil
}

// Detach removes an endpoint's port and link. Its flows and connections are removed with its record.
func (a *Agent) Detach(ctx context.Context, epID string) error {
	unlock, err := a.ports.Lock(ctx, epID)
	if err != nil {
		return explain(err, "port of endpoint %s", epID)
	}
	defer unlock()
	a.mu.Lock()
	delete(a.held.attached, epID)
	a.mu.Unlock()
	a.changed.Send() // objects that only this container needed may be removed
	if err := a.cfg.Driver.RemovePort(ctx, epID); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.held.claimed, epID)
	a.held.unreported = append(a.held.unreported, epID)
	a.mu.Unlock()
	a.report.Send()
	return nil
}

// awaitEndpoint waits until the endpoint is wanted on this node. If the cache is known to be recent enough, it
// returns the error at once: waiting would not help.
func (a *Agent) awaitEndpoint(ctx context.Context, epID string, recent bool) (Attachment, error) {
	for {
		a.mu.Lock()
		at, err := a.servedLocally(epID)
		news := a.news
		a.mu.Unlock()
		if err == nil || recent {
			return at, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return Attachment{}, explain(ctx.Err(), "%v", err)
		}
	}
}

// servedLocally returns a local endpoint that has everything it needs. The caller holds the lock.
func (a *Agent) servedLocally(epID string) (Attachment, error) {
	wanted, err := a.cache.wantedEndpoint(epID)
	if err != nil {
		return Attachment{}, err
	}
	e := a.cache.endpoints[epID]
	if e.host != a.cfg.HostLabel {
		return Attachment{}, fault.New(fault.Conflict, "endpoint %s belongs to host %q, this is %q", epID, e.host, a.cfg.HostLabel)
	}
	if err := a.cache.roomToFlood(epID); err != nil {
		return Attachment{}, err
	}
	n := a.cache.networks[e.netID].record
	at := Attachment{Endpoint: *e.record, Network: n, VRF: a.cache.vrfs[n.Tenant]}
	if at.NameServers = a.askedBy(wanted); len(at.NameServers) > 0 {
		at.Domain = nameserver.DomainOf(n.Tenant)
	}
	return at, nil
}

// explain adds context to an error. A timeout or cancellation becomes Unavailable: the store or the switch was
// too slow, and a retry helps.
func explain(err error, format string, args ...any) error {
	kind := fault.KindOf(err)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		kind = fault.Unavailable
	}
	return fault.New(kind, format+": %w", append(args, err)...)
}
