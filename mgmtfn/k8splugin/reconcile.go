package k8splugin

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// The store and the checkpoints may differ: if the store is restored from a
// backup or has freed the node's endpoints, or if checkpoints are lost with a disk.
// Containers decide. An endpoint that a container uses is created in the store
// again, with the same addresses; if the master refuses, the container keeps
// them, and the refusal is reported until an operator resolves it. An
// endpoint that was attached here and that no container can be using is deleted.

// reconcile compares store and checkpoints at intervals until ctx ends.
func (s *Server) reconcile(ctx context.Context) {
	tick := time.NewTicker(s.Limits.Reconcile)
	defer tick.Stop()
	paces := map[string]*pace{}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if err := s.boots.Note(); err != nil {
				s.Log.WithError(err).Debug("still not written down")
			}
			todo := map[string]func(context.Context) error{}
			for _, r := range s.store.Select(isIncomplete) {
				todo[r.EndpointID()] = func(ctx context.Context) error { return s.complete(ctx, r.EndpointID()) }
			}
			for _, id := range s.Datapath.Unannounced() {
				todo[id] = func(ctx context.Context) error { return s.announce(ctx, id) }
			}
			for _, at := range s.Datapath.Unclaimed(s.boots.Ended) {
				todo[at.Endpoint.ID] = func(ctx context.Context) error { return s.abandon(ctx, at) }
			}
			s.tryEach(ctx, todo, paces, now)
		}
	}
}

// pace increases the interval of attempts that fail repeatedly.
type pace struct {
	*retry.Pacer
	notBefore time.Time
}

// tryEach runs the functions that are due, a few at a time.
func (s *Server) tryEach(ctx context.Context, todo map[string]func(context.Context) error, paces map[string]*pace, now time.Time) {
	for id := range paces {
		if todo[id] == nil {
			delete(paces, id)
		}
	}
	var group errgroup.Group
	group.SetLimit(undoAtOnce)
	for id, do := range todo {
		p := paces[id]
		if p == nil {
			p = &pace{Pacer: retry.NewPacer(s.Limits.RetryMin, s.Limits.RetryMax)}
			paces[id] = p
		}
		if now.Before(p.notBefore) {
			continue
		}
		group.Go(func() error {
			p.notBefore = now.Add(p.Next())
			ctx, cancel := context.WithTimeout(ctx, otherTime)
			defer cancel()
			if err := do(ctx); err != nil && ctx.Err() == nil {
				s.Log.WithError(err).WithField("endpoint", id).Error("store and containers of this node disagree")
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return nothing
}

// completeTime bounds the wait for the records of an endpoint.
const completeTime = time.Second

// complete adds the endpoint's records to a checkpoint of an earlier release, which lacks them. If the store does
// not have them now, it is retried.
func (s *Server) complete(ctx context.Context, endpointID string) error {
	r, unlock, ok := s.lockReady(endpointID)
	if !ok {
		return nil // a command works on it, or it is being undone
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	at, err := s.Datapath.Await(ctx, endpointID, 0)
	if err != nil {
		return nil
	}
	r.Stored = storedFrom(at)
	if err := s.store.Finish(&r, time.Now()); err != nil {
		return err
	}
	s.Datapath.Hold(heldBy(&r))
	return nil
}

// announce creates the endpoint of a container in the store again. If the container is gone, the attachment is
// undone.
func (s *Server) announce(ctx context.Context, endpointID string) error {
	r, unlock, ok := s.lockReady(endpointID)
	if !ok {
		return nil // a command works on it, or it is being undone
	}
	defer unlock()
	gone, err := isGone(&r)
	if err != nil {
		return err
	}
	if gone {
		s.Log.WithField("attachment", r.Attachment().String()).Warn("neither the store nor the switch has it any more, undone")
		return s.release(ctx, r)
	}
	request := s.endpointRequest(&r)
	for _, address := range r.Link.Addresses {
		if address.Addr().Is4() {
			request.ConfigEP.IPAddress = address.Addr().String()
		} else {
			request.ConfigEP.IPv6Address = address.Addr().String()
		}
	}
	endpoint, _, err := s.Master.CreateEndpoint(ctx, request)
	if err == nil {
		err = sameEndpoint(endpoint, request.ConfigEP)
	}
	if err != nil {
		return fmt.Errorf("endpoint %s, which container %s uses, is not in the store and cannot be announced again: %w", endpointID, r.ContainerID, err)
	}
	s.Log.WithFields(logrus.Fields{"attachment": r.Attachment().String(), "endpoint": endpointID}).Warn("the store had lost the endpoint, announced again")
	return nil
}

// sameEndpoint returns an error unless the master's endpoint is the one of the container.
func sameEndpoint(have mastercfg.CfgEndpointState, want mastercfg.ConfigEP) error {
	if have.HomingHost != want.Host {
		return fault.New(fault.Conflict, "it lives on host %s", have.HomingHost)
	}
	for _, pair := range [][2]string{{have.IPAddress, want.IPAddress}, {have.IPv6Address, want.IPv6Address}} {
		a, _ := netip.ParseAddr(pair[0])
		b, _ := netip.ParseAddr(pair[1])
		if a != b {
			return fault.New(fault.Conflict, "it has address %q, the container %q", pair[0], pair[1])
		}
	}
	return nil
}

// lockReady returns the attachment of an endpoint, locked; ok is false if there is no complete one, or a command
// works on it.
func (s *Server) lockReady(endpointID string) (r attachment.Record, unlock func(), ok bool) {
	for _, found := range s.recordsOf(endpointID) {
		unlock, _ := s.locks.Try(found.Attachment())
		if unlock == nil {
			continue
		}
		if now, still := s.store.Get(found.Attachment()); still && now.State == attachment.Ready {
			return now, unlock, true
		}
		unlock()
	}
	return attachment.Record{}, nil, false
}

func (s *Server) recordsOf(endpointID string) []attachment.Record {
	return s.store.Select(func(r *attachment.Record) bool { return r.EndpointID() == endpointID })
}

// abandon deletes an endpoint that was attached here and has no checkpoint. Two things show that it was
// attached here: the switch has a port of it, which outlives its link and the process as long as the
// store has the endpoint; or its record in the store has a boot id of this machine, an earlier one, or
// the present one if the store was restored to a time before a DEL. While the link is there, a
// container may be behind it, and nothing is deleted. Other endpoints were made by something else, which
// has to delete them.
func (s *Server) abandon(ctx context.Context, at Attachment) error {
	id, port := at.Endpoint.ID, at.Port.HostLink
	unlock, _ := s.names.Try(id)
	if unlock == nil {
		return nil // an ADD has begun
	}
	defer unlock()
	if len(s.recordsOf(id)) > 0 || at.Network.NetworkName == "" {
		return nil
	}
	if port != "" {
		if there, err := podlink.Exists(port, id); there || err != nil {
			return err
		}
	} else if !s.boots.Known(at.Endpoint.Boot) {
		return nil
	}
	if err := s.Datapath.Detach(ctx, id); err != nil {
		return err
	}
	err := s.Master.DeleteEndpoint(ctx, mastercfg.DeleteEndpointRequest{
		TenantName: at.Network.Tenant, NetworkName: at.Network.NetworkName, EndpointID: at.Endpoint.EndpointID, Host: s.HostLabel,
	})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("endpoint that no container of this node uses: %w", err)
	}
	s.Log.WithField("endpoint", id).Warn("deleted an endpoint that no container of this node uses")
	return nil
}

func isReady(r *attachment.Record) bool { return r.State == attachment.Ready }

// isIncomplete matches checkpoints of an earlier release.
func isIncomplete(r *attachment.Record) bool { return isReady(r) && r.Stored == nil }

func storedFrom(at Attachment) *attachment.Stored {
	return &attachment.Stored{Endpoint: at.Endpoint, Network: at.Network, VRF: at.VRF}
}

// heldBy returns the Attachment of an attached container for Datapath.Hold. With a checkpoint of an earlier
// release it has only the endpoint's id, until the checkpoint is completed.
func heldBy(r *attachment.Record) Attachment {
	at := Attachment{Endpoint: mastercfg.CfgEndpointState{ID: r.EndpointID(), NetID: mastercfg.NetworkID(r.Tenant, r.NetworkName)}}
	if r.Stored != nil {
		at.Endpoint, at.Network, at.VRF = r.Stored.Endpoint, r.Stored.Network, r.Stored.VRF
	}
	return at
}
