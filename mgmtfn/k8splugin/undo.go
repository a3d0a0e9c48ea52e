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

// release undoes an attachment whose lock the caller holds. The intention is
// on disk before the first effect, so whatever is left when it returns an
// error, the worker goes on with. Where the disk is full it undoes all the same,
// as what is undone takes no room and may give some back; what is left then, the
// runtime has to ask for again. It is not stopped by the end of the command
// it serves, only by its own time limit.
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
		s.tellAttached(&r) // it was among those that have them until now
	case err != nil:
		s.wake.Send()
		err = cmp.Or(unnoted, err)
	}
	return err
}

// undo removes everything an attachment may have: port, link and flows here,
// address and record at the master, and when all that is gone the checkpoint.
// A part that fails does not keep the others. Neither does one that waits as long as it may, such as for
// a switch that was never there: the first two are done at once.
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
