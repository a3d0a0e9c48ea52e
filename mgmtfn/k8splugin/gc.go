package k8splugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
)

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
