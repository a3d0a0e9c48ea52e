package k8splugin

import (
	"context"
	"fmt"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/utils/fault"
)

// User returns the name of the container that uses an endpoint of this node, or fault.NotFound if there is none.
// An attachment whose container is gone does not count; a port without a checkpoint is in use while the other end
// of its link is up.
func (s *Server) User(endpointID string) (string, error) {
	for _, r := range s.recordsOf(endpointID) {
		switch r.State {
		case attachment.Adding:
			return r.Attachment().String(), nil
		case attachment.Ready:
			if gone, err := isGone(&r); !gone || err != nil {
				return r.Attachment().String(), err
			}
		}
	}
	if s.Ports != nil {
		for _, port := range s.Ports() {
			if port.EndpointID != endpointID {
				continue
			}
			used, err := podlink.InUse(port.HostLink, endpointID)
			if used || err != nil {
				return "a container behind link " + port.HostLink, err
			}
		}
	}
	return "", fault.New(fault.NotFound, "endpoint %s: nobody on this node uses it", endpointID)
}

// Reclaim deletes an endpoint whose container is gone without a DEL. If it is used, or is being attached, the
// error is fault.Conflict.
func (s *Server) Reclaim(ctx context.Context, endpointID string) error {
	unlockName, _ := s.names.Try(endpointID) // an ADD for it waits, and makes a port of its own
	if unlockName == nil {
		return fault.New(fault.Conflict, "endpoint %s: it is being attached or given up", endpointID)
	}
	defer unlockName()
	records := s.recordsOf(endpointID)
	for _, r := range records {
		unlock, _ := s.locks.Try(r.Attachment())
		if unlock == nil {
			return fault.New(fault.Conflict, "endpoint %s: a command about %s is being carried out", endpointID, r.Attachment())
		}
		defer unlock()
	}
	user, err := s.User(endpointID)
	switch {
	case err == nil:
		return fault.New(fault.Conflict, "endpoint %s: %s uses it; stop the container", endpointID, user)
	case !fault.Is(err, fault.NotFound):
		return fmt.Errorf("endpoint %s: %w", endpointID, err)
	}
	for _, r := range records {
		if now, ok := s.store.Get(r.Attachment()); ok {
			if err := s.release(ctx, now); err != nil {
				return err
			}
		}
	}
	return s.Datapath.Detach(ctx, endpointID)
}
