package k8splugin

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// adding is an ADD after its first checkpoint. Two tracks run in parallel, as each mostly waits: for the kernel
// and the switch, or for the master and the store.
//
//	PreparePort --> take the link ---+----+--> set up, bring up ----+
//	                                 |    |                         +--> ready
//	CreateEndpoint ------------------|----+--+                      |
//	                                 +--> Attach (flows) -----------+
//
// The interface comes up while the flows are written: the container does not run yet, and the kernel retransmits
// its own packets. It does not repeat the announcement of the address (gratuitous ARP, unsolicited NA); in
// networks that need it, the interface comes up after the flows.
type adding struct {
	*Server
	call   *call
	record *attachment.Record
	log    *logrus.Entry

	pod      *podInterface // valid when prepared is closed
	prepared chan struct{}
	stored   Attachment // valid when known is closed
	known    chan struct{}
}

// attach carries out the steps of an ADD after the first checkpoint. If it fails, the caller undoes them, however
// many are done.
func (s *Server) attach(ctx context.Context, c *call, netns *podlink.Namespace, r *attachment.Record) error {
	a := &adding{
		Server: s, call: c, record: r, log: s.Log.WithField("attachment", c.id.String()),
		prepared: make(chan struct{}), known: make(chan struct{}),
	}
	defer func() { a.pod.close() }()
	a.log.Debug("add: begin")
	tracks, trackCtx := errgroup.WithContext(ctx)
	tracks.Go(func() error { return a.makeInterface(trackCtx, netns) })
	tracks.Go(func() error { return a.makeEndpoint(trackCtx) })
	if err := tracks.Wait(); err != nil {
		return err
	}
	if a.pod.spec.Announce {
		if err := a.bringUp(ctx); err != nil {
			return err
		}
	}
	if err := a.pod.record(c, r, a.stored); err != nil {
		return failed(stepPod, err)
	}
	a.log.Debug("add: checkpoint")
	if err := s.store.Finish(r, time.Now()); err != nil {
		return failed(stepState, err)
	}
	a.log.Debug("add: ready")
	return nil
}

// makeInterface runs the track of the kernel and the switch port.
func (a *adding) makeInterface(ctx context.Context, netns *podlink.Namespace) (err error) {
	if a.pod, err = a.prepare(ctx, a.call, a.record.EndpointID(), netns); err != nil {
		return err
	}
	close(a.prepared)
	if err := await(ctx, a.known); err != nil {
		return failed(stepMaster, err)
	}
	a.log.Debug("add: set up")
	if err := a.pod.plan(a.stored); err != nil {
		return failed(stepPod, err)
	}
	if err := a.pod.SetUp(a.pod.spec); err != nil {
		return failed(stepPod, err)
	}
	if a.pod.spec.Announce {
		return nil // it is brought up after the flows
	}
	return a.bringUp(ctx)
}

func (a *adding) bringUp(ctx context.Context) error {
	a.log.Debug("add: bring up")
	return failed(stepPod, a.pod.bringUp(ctx))
}

// makeEndpoint runs the track of the store and the flows.
func (a *adding) makeEndpoint(ctx context.Context) error {
	revision, err := a.announce(ctx)
	if err != nil {
		return err
	}
	if a.stored, err = a.Datapath.Await(ctx, a.record.EndpointID(), revision); err != nil {
		return failed(stepDatapath, err)
	}
	close(a.known)
	if err := await(ctx, a.prepared); err != nil {
		return failed(stepDatapath, err)
	}
	a.log.Debug("add: flows")
	_, err = a.Datapath.Attach(ctx, a.record.EndpointID(), revision)
	return failed(stepDatapath, err)
}

// announce makes the master create the endpoint, and returns the store revision that has it.
//
// The checkpoint need not be synced to disk if the endpoint in the store has the boot id of this machine
// (attachment.Boots). A master of an earlier release does not store the boot id, so the checkpoint is synced
// before the request until one response has had it.
func (a *adding) announce(ctx context.Context) (revision int64, err error) {
	synced := !a.tellsBoot.Load()
	if synced {
		if err := a.store.Sync(a.record); err != nil {
			return 0, failed(stepState, err)
		}
	}
	boot, revision, err := a.createEndpoint(ctx, a.call, a.record)
	if err != nil {
		return 0, failed(stepMaster, err)
	}
	a.tellsBoot.Store(boot != "")
	if boot != a.boots.Now() && !synced { // the endpoint existed before, or the master changed
		if err := a.store.Sync(a.record); err != nil {
			return 0, failed(stepState, err)
		}
	}
	return revision, nil
}

// await waits for a channel that the other track closes. If that track fails, its error is the one of the ADD.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// createEndpoint makes the master allocate addresses, and returns the boot id of the endpoint in the store. An
// endpoint with this id on another node is an error, and must not be deleted.
func (s *Server) createEndpoint(ctx context.Context, c *call, r *attachment.Record) (boot string, revision int64, err error) {
	endpoint, revision, err := s.Master.CreateEndpoint(ctx, s.createRequest(c, r))
	if err == nil && endpoint.HomingHost != "" && endpoint.HomingHost != s.HostLabel {
		r.KeepEndpoint = true
		err = fault.New(fault.Conflict, "endpoint %s lives on host %s", r.EndpointID(), endpoint.HomingHost)
	}
	r.Denied = fault.Is(err, fault.Denied)
	return endpoint.Boot, revision, err
}

func (s *Server) createRequest(c *call, r *attachment.Record) mastercfg.CreateEndpointRequest {
	request := s.endpointRequest(r)
	if c.wanted.IPv4.IsValid() {
		request.ConfigEP.IPAddress = c.wanted.IPv4.String()
	}
	if c.wanted.IPv6.IsValid() {
		request.ConfigEP.IPv6Address = c.wanted.IPv6.String()
	}
	return request
}

// endpointRequest returns the request for the endpoint of an attachment, without a particular address.
func (s *Server) endpointRequest(r *attachment.Record) mastercfg.CreateEndpointRequest {
	return mastercfg.CreateEndpointRequest{
		TenantName:   r.Tenant,
		NetworkName:  r.NetworkName,
		ServiceName:  r.Group,
		EndpointID:   r.Endpoint,
		EPCommonName: r.PodName,
		ConfigEP:     mastercfg.ConfigEP{Container: r.Endpoint, Host: s.HostLabel, ServiceName: r.Group},
		PodNamespace: r.PodNamespace,
		PodUID:       r.PlacedUID,
		Boot:         s.boots.ForStore(),
		Labels:       r.Labels,
	}
}
