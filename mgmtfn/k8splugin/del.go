package k8splugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
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

// gc undoes every attachment of the network that the runtime does not list.
// Attachments being worked on are left alone: their command came after the
// list was made. Errors do not stop it; they are reported at the end, and the
// worker goes on with what they are about.
func (s *Server) gc(ctx context.Context, conf *netconf.Conf) error {
	valid := conf.Valid()
	var errs []error
	for _, r := range s.store.Select(func(r *attachment.Record) bool {
		return r.Network == conf.Name && !valid[r.Attachment()]
	}) {
		unlock, busy := s.locks.Try(r.Attachment())
		if busy != nil {
			continue
		}
		// It may have changed hands between the list and the lock.
		if now, ok := s.store.Get(r.Attachment()); ok && now.State == r.State && now.Since.Equal(r.Since) {
			if err := s.release(ctx, now); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", r.Attachment(), err))
			}
		}
		unlock()
	}
	return errors.Join(errs...)
}
