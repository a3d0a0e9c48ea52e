package k8splugin

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// attach carries out the steps of an ADD behind the first checkpoint. When it
// fails the caller undoes them, however far they have come.
//
// Two tracks run side by side, as each waits most of its time: for the kernel
// and the switch, or for the master and the store.
//
//	PreparePort --> take the link ---+----+--> set up, bring up ----+
//	                                 |    |                         +--> ready
//	CreateEndpoint ------------------|----+--+                      |
//	                                 +--> Attach (flows) -----------+
//
// The interface comes up while the flows are written: its container does not run yet, and
// what the kernel sends by itself it repeats. Not so the announcement of its address where others have to
// learn that: there it comes up behind the flows.
//
// The checkpoint need not reach the disk if the store has the endpoint with the boot of
// this machine that it belongs to (attachment.Boots). A master of an earlier release does not write the boot
// down, so until one has answered with it the checkpoint is on the disk before the endpoint is asked for.
func (s *Server) attach(ctx context.Context, c *call, netns *podlink.Namespace, r *attachment.Record) error {
	log := s.Log.WithField("attachment", c.id.String())
	var (
		pod      *podInterface
		prepared = make(chan struct{})
		stored   Attachment
		known    = make(chan struct{})
	)
	defer func() { pod.close() }()
	log.Debug("add: begin")
	tracks, trackCtx := errgroup.WithContext(ctx)
	tracks.Go(func() (err error) {
		if pod, err = s.prepare(trackCtx, c, r.EndpointID(), netns); err != nil {
			return err
		}
		close(prepared)
		select {
		case <-known:
		case <-trackCtx.Done():
			return failed(stepMaster, trackCtx.Err()) // what ended the context counts first
		}
		log.Debug("add: set up")
		if err := pod.plan(stored); err != nil {
			return failed(stepPod, err)
		}
		if err := pod.SetUp(pod.spec); err != nil || pod.spec.Announce {
			return failed(stepPod, err)
		}
		log.Debug("add: bring up")
		return failed(stepPod, pod.bringUp(trackCtx))
	})
	tracks.Go(func() (err error) {
		synced := !s.tellsBoot.Load()
		if synced {
			if err := s.store.Sync(r); err != nil {
				return failed(stepState, err)
			}
		}
		boot, revision, err := s.createEndpoint(trackCtx, c, r)
		if err != nil {
			return failed(stepMaster, err)
		}
		s.tellsBoot.Store(boot != "")
		if boot != s.boots.Now() && !synced { // it was there before, or the master is another one now
			if err := s.store.Sync(r); err != nil {
				return failed(stepState, err)
			}
		}
		if stored, err = s.Datapath.Await(trackCtx, r.EndpointID(), revision); err != nil {
			return failed(stepDatapath, err)
		}
		close(known)
		select {
		case <-prepared:
		case <-trackCtx.Done():
			return failed(stepDatapath, trackCtx.Err()) // as above
		}
		log.Debug("add: flows")
		_, err = s.Datapath.Attach(trackCtx, r.EndpointID(), revision)
		return failed(stepDatapath, err)
	})
	if err := tracks.Wait(); err != nil {
		return err
	}
	if pod.spec.Announce {
		log.Debug("add: bring up")
		if err := pod.bringUp(ctx); err != nil {
			return failed(stepPod, err)
		}
	}
	if err := pod.record(c, r, stored); err != nil {
		return failed(stepPod, err)
	}
	log.Debug("add: checkpoint")
	if err := s.store.Finish(r, time.Now()); err != nil {
		return failed(stepState, err)
	}
	log.Debug("add: ready")
	return nil
}

// createEndpoint has the master allocate addresses, and returns the boot that the store has of
// the endpoint. An endpoint of that name on another node is not ours, neither to use nor to delete.
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

// endpointRequest asks for the endpoint of an attachment, with any address.
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
		Boot:         s.boots.Now(),
		Labels:       r.Labels,
	}
}
