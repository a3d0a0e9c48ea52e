package k8splugin

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/utils/retry"
)

// undoAtOnce limits how many attachments the worker undoes concurrently.
const undoAtOnce = 4

// resume takes over the unfinished commands of a server that died: an ADD without a response is undone, a DEL is
// continued, and queued deletions are accepted. It runs before the first request is served. If the disk is full,
// so that an ADD cannot be marked, the worker undoes it nevertheless.
func (s *Server) resume(ctx context.Context) {
	for _, r := range s.store.Select(func(r *attachment.Record) bool { return r.State == attachment.Adding }) {
		if err := s.store.Delete(&r, time.Now()); err != nil {
			s.Log.WithField("attachment", r.Attachment().String()).WithError(err).Error("interrupted ADD cannot be marked for undoing")
			s.unmarked.Store(r.Attachment(), r.Since)
		}
	}
	s.drain(ctx)
	s.wake.Send()
}

// work undoes attachments that commands could not undo, until ctx ends. It backs off while attempts fail, and
// starts again at once when there is a new attachment.
func (s *Server) work(ctx context.Context) {
	scan := time.NewTicker(s.Limits.PendingScan)
	defer scan.Stop()
	pace := retry.NewPacer(s.Limits.RetryMin, s.Limits.RetryMax)
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-scan.C:
			s.drain(ctx)
			continue
		case <-s.wake:
			pace.Reset()
		case <-again.C:
		}
		if s.undoAll(ctx) {
			pace.Reset()
			again.Stop()
			continue
		}
		again.Reset(pace.Next())
	}
}

// errBusy means that a command works on an attachment.
var errBusy = errors.New("a command works on the attachment")

// undoAll tries every attachment in state deleting once, and reports whether none is left.
func (s *Server) undoAll(ctx context.Context) (done bool) {
	todo := s.store.Select(s.isLeftover)
	var group errgroup.Group
	group.SetLimit(undoAtOnce)
	for _, r := range todo {
		group.Go(func() error { return s.undoLeftover(ctx, r.Attachment()) })
	}
	return group.Wait() == nil
}

// isLeftover reports whether the worker has to undo an attachment. One that could not be marked may have been
// replaced by another.
func (s *Server) isLeftover(r *attachment.Record) bool {
	since, unmarked := s.unmarked.Load(r.Attachment())
	return r.State == attachment.Deleting || unmarked && r.Since.Equal(since.(time.Time))
}

// undoLeftover tries one attachment. If a command works on it, that counts as a failure: the command may leave
// parts of it, and wakes the worker before it unlocks.
func (s *Server) undoLeftover(ctx context.Context, a cniwire.Attachment) error {
	unlock, busy := s.locks.Try(a)
	if busy != nil {
		return errBusy
	}
	defer unlock()
	r, ok := s.store.Get(a)
	if !ok || !s.isLeftover(&r) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Limits.Undo)
	defer cancel()
	err := s.undo(ctx, r)
	log := s.Log.WithField("attachment", a.String())
	if err != nil {
		log.WithError(err).Debug("cannot be undone yet")
		return err
	}
	s.unmarked.Delete(a)
	if r.State == attachment.Ready { // until now it was among those with host ports
		s.tellAttached(&r)
	}
	log.WithField("after", time.Since(r.Since).Round(time.Millisecond)).Info("leftover undone")
	return nil
}

// drain accepts the deletions queued on disk; the worker undoes them afterwards.
func (s *Server) drain(ctx context.Context) {
	requests, err := s.pending.List()
	if err != nil {
		s.Log.WithError(err).Error("queued deletions")
	}
	for _, r := range requests {
		if err := s.acceptDeletion(ctx, r.Attachment()); err != nil {
			s.Log.WithField("attachment", r.Attachment().String()).WithError(err).Warn("queued deletion waits")
		}
	}
}

// acceptDeletion turns a queued deletion into a checkpoint in state deleting. While a command works on the
// attachment, it leaves the deletion to the next scan; while another caller accepts it, it waits for that one, so
// that the host ports are free when a DEL is answered. A deletion that was carried out since it was listed must
// not delete a new attachment.
func (s *Server) acceptDeletion(ctx context.Context, a cniwire.Attachment) error {
	accepted, err := s.accepts.Lock(ctx, a)
	if err != nil {
		return err
	}
	defer accepted()
	unlock, busy := s.locks.Try(a)
	if busy != nil {
		return nil
	}
	defer unlock()
	if !s.pending.Has(a) {
		return nil
	}
	if r, ok := s.store.Get(a); ok && r.State != attachment.Deleting {
		if err := s.store.Delete(&r, time.Now()); err != nil { // disk full: the worker undoes it all the same
			s.unmarked.Store(a, r.Since)
			s.wake.Send()
			return err
		}
		s.tellAttached(&r)
	}
	s.wake.Send()
	return s.pending.Done(a)
}
