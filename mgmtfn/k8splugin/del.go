package k8splugin

import (
	"context"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

// del undoes an attachment. Once the intention is on disk it succeeds: what
// cannot be undone now is undone later, and a runtime that tried again could
// not speed it up. An attachment nobody knows is deleted already.
func (s *Server) del(ctx context.Context, a cniwire.Attachment) error {
	unlock, err := s.locks.Lock(ctx, a)
	if err != nil {
		return failed(stepState, err)
	}
	defer unlock()
	if r, ok := s.store.Get(a); ok {
		err := s.release(ctx, r)
		if after, left := s.store.Get(a); err != nil && left && after.State != attachment.Deleting {
			return err // not even remembered
		}
		if err != nil {
			s.Log.WithField("attachment", a.String()).WithError(err).Warn("DEL is not finished yet, going on in the background")
		}
	}
	return failed(stepState, s.pending.Done(a))
}
