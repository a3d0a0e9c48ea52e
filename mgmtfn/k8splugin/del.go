package k8splugin

import (
	"context"
	"fmt"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

// del undoes an attachment. It succeeds as soon as the intention is on disk: parts that cannot be undone now are
// undone later, and retries of the runtime could not speed that up. An unknown attachment counts as deleted.
func (s *Server) del(ctx context.Context, a cniwire.Attachment) error {
	unlock, err := s.locks.Lock(ctx, a)
	if err != nil {
		return failed(stepState, err)
	}
	defer unlock()
	if r, ok := s.store.Get(a); ok {
		err := s.release(ctx, r)
		if after, left := s.store.Get(a); err != nil && left && after.State != attachment.Deleting {
			return err // not even the intention is stored
		}
		if err != nil {
			s.Log.WithField("attachment", a.String()).WithError(err).Warn("DEL is not finished yet, going on in the background")
		}
	}
	return failed(stepState, s.pending.Done(a))
}

// postpone queues a DEL that gets no slot on disk, as the program does while the server is down; it is carried out
// later. If it were refused, the runtime would keep the container and retry, and a burst of DELs would not end.
func (s *Server) postpone(ctx context.Context, r cniwire.Request, cause error) error {
	if err := s.pending.Put(r); err != nil {
		return failed(stepState, fmt.Errorf("DEL of %s gets no turn (%v): %w", r.Attachment(), cause, err))
	}
	log := s.Log.WithField("attachment", r.Attachment().String())
	log.WithError(cause).Warn("DEL gets no turn, going on in the background")
	// At once, since for the runtime the pod is deleted: another pod may request its host ports.
	if err := s.acceptDeletion(ctx, r.Attachment()); err != nil {
		log.WithError(err).Warn("queued deletion waits")
	}
	return nil
}
