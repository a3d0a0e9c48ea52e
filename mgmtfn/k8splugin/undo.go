package k8splugin

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// release undoes an attachment whose lock the caller holds. It first writes state deleting to
// the checkpoint, so that the worker completes the undo after an
// error. If the disk is full it undoes without that, which needs no space and
// may free some; after an error the runtime has to repeat its command
// then. Its time limit is Limits.Undo; the end of ctx does not stop it.
func (s *Server) release(ctx context.Context, r attachment.Record) error {
	var unnoted error
	if r.State != attachment.Deleting {
		unnoted = failed(stepState, s.store.Delete(&r, time.Now()))
		s.tellAttached(&r)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Limits.Undo)
	defer cancel()
	err := s.undo(ctx, r)
	switch {
	case err == nil && unnoted != nil:
		s.Log.WithField("attachment", r.Attachment().String()).WithError(unnoted).Warn("undone without a note of it")
		s.tellAttached(&r) // until Remove, HostPorts and Attached still had it
	case err != nil:
		s.wake.Send()
		err = cmp.Or(unnoted, err)
	}
	return err
}

// undo removes everything an attachment may have: port, link and flows on this node,
// the endpoint with its address in the store, and then the checkpoint. The first two are done in
// parallel: one that fails or waits until its time limit, such as for
// a switch that does not run, does not stop the other. The checkpoint is removed when both have succeeded.
func (s *Server) undo(ctx context.Context, r attachment.Record) error {
	log := s.Log.WithField("attachment", r.Attachment().String())
	detached := make(chan error, 1)
	go func() {
		log.Debug("undo: datapath")
		detached <- failed(stepDatapath, s.Datapath.Detach(ctx, r.EndpointID()))
	}()
	log.Debug("undo: master")
	deleted := failed(stepMaster, s.deleteEndpoint(ctx, r))
	if err := errors.Join(<-detached, deleted); err != nil {
		return err
	}
	log.Debug("undo: checkpoint")
	return failed(stepState, s.store.Remove(r.Attachment()))
}

func (s *Server) deleteEndpoint(ctx context.Context, r attachment.Record) error {
	if r.KeepEndpoint {
		return nil
	}
	err := s.Master.DeleteEndpoint(ctx, mastercfg.DeleteEndpointRequest{
		TenantName:  r.Tenant,
		NetworkName: r.NetworkName,
		ServiceName: r.Group,
		EndpointID:  r.Endpoint,
		Host:        s.HostLabel,
	})
	if fault.Is(err, fault.NotFound) || r.Denied && fault.Is(err, fault.Denied) {
		return nil
	}
	return err
}
