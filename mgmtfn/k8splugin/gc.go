package k8splugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
)

// gc undoes every attachment of the network that is not in the runtime's list
// (cni.dev/valid-attachments). It skips attachments that a command works on: the command came after
// the list was made. After an error it continues; it returns all errors, and the
// worker undoes the attachments that failed.
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
		// It may have been replaced between Select and Try.
		if now, ok := s.store.Get(r.Attachment()); ok && now.State == r.State && now.Since.Equal(r.Since) {
			if err := s.release(ctx, now); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", r.Attachment(), err))
			}
		}
		unlock()
	}
	return errors.Join(errs...)
}
