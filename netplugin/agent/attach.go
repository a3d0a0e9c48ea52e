package agent

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/nameserver"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// Attachment is an endpoint that forwards: its port and what to configure in
// the pod. The network's record comes without its address maps.
type Attachment struct {
	Port     drivers.Port
	Endpoint mastercfg.CfgEndpointState
	Network  mastercfg.CfgNetworkState
	VRF      uint16 // number of the tenant's routing domain
	// Where the endpoint asks for names, and the domain of its tenant's own; empty:
	// nobody answers.
	NameServers []netip.Addr
	Domain      string
}

// PreparePort makes the link and switch port of an endpoint, the pod's end in
// the network namespace behind a descriptor (0: in ours). It does not need the
// endpoint's record, so that a caller can do it while netmaster works.
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

// awaitEncap waits until it is known which bridge an endpoint belongs to. On a
// node with one bridge there is no question.
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

// networkOf finds the network of an endpoint by its record or, before there is
// one, by its id, which is that of the network, a dash and the container's.
func (c *cache) networkOf(epID string) (network, bool) {
	if e, known := c.endpoints[epID]; known {
		n, known := c.networks[e.netID]
		return n, known
	}
	for end := len(epID) - 1; end > 0; end-- {
		if n, known := c.networks[epID[:end]]; known && epID[end] == '-' {
			return n, true
		}
	}
	return network{}, false
}

// awaitFlows waits until the switch has what an endpoint needs to forward. Rules of policies
// come before the endpoint, which overtakes all else that the switch is to have.
func (a *Agent) awaitFlows(ctx context.Context, epID string, network mastercfg.CfgNetworkState) error {
	a.mu.Lock()
	policies := a.cache.tierRulesAbout(epID)
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
	a.cache.ruled[network.Tenant] = a.cache.present(network.Tenant)
	return nil
}

// awaitRules waits until the switch has rules. One that it refuses is logged by the
// driver and keeps nobody from being attached.
func (a *Agent) awaitRules(ctx context.Context, rules []pipeline.Key, what string) error {
	if len(rules) == 0 {
		return nil
	}
	if err := a.cfg.Driver.Sync(ctx, rules...); err != nil && (ctx.Err() != nil || fault.Is(err, fault.Unavailable)) {
		return explain(err, "%s", what)
	}
	return nil
}

// claim keeps the reaper away from an endpoint's port until Detach.
func (a *Agent) claim(epID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held.claimed[epID] = struct{}{}
}

// Await waits until this node has seen the store at a revision, which should be
// the one netmaster answered with (0: not known), and knows an endpoint of its
// own with all that it needs to be served. The attachment has no port.
func (a *Agent) Await(ctx context.Context, epID string, revision int64) (Attachment, error) {
	if err := a.mirrors[0].WaitRevision(ctx, revision); err != nil {
		return Attachment{}, explain(err, "endpoint %s: store revision %d has not arrived", epID, revision)
	}
	return a.awaitEndpoint(ctx, epID, revision > 0)
}

// Attach awaits an endpoint and forwards for it. Its port must be there; it is
// held from then on until Detach. Attach is idempotent.
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

// Detach removes an endpoint's port and link. Its flows and connections go with its record.
func (a *Agent) Detach(ctx context.Context, epID string) error {
	unlock, err := a.ports.Lock(ctx, epID)
	if err != nil {
		return explain(err, "port of endpoint %s", epID)
	}
	defer unlock()
	a.mu.Lock()
	delete(a.held.attached, epID)
	a.mu.Unlock()
	a.changed.Send() // what only this container needed may go
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

// awaitEndpoint waits until the endpoint is wanted on this node. If the cache
// is known to be recent enough, what is missing now will not come.
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

// servedLocally finds a local endpoint that has all it needs; it is called with the lock.
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

// explain says what an error was about. Running out of time is Unavailable: the
// store or the switch was too slow, and trying again helps.
func explain(err error, format string, args ...any) error {
	kind := fault.KindOf(err)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		kind = fault.Unavailable
	}
	return fault.New(kind, format+": %w", append(args, err)...)
}
