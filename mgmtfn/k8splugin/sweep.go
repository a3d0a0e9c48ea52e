package k8splugin

import (
	"context"
	"os"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

// beat touches the heartbeat file until ctx ends, while the datapath is ready or ServesAsBefore
// is true.
func (s *Server) beat(ctx context.Context) {
	tick := time.NewTicker(s.Limits.Beat)
	defer tick.Stop()
	for {
		if err := s.Datapath.Ready(); err == nil || s.ServesAsBefore(err) {
			if err := os.WriteFile(cniwire.Heartbeat(s.SocketPath), nil, 0o600); err != nil {
				s.Log.WithError(err).Warn("STATUS will not know that this server was there")
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweep undoes, until ctx ends, attachments whose containers are gone, and attachments of deleted pods whose network namespace
// still exists (deleted.go). It is for the few containers that get no DEL; container runtimes do not call GC.
func (s *Server) sweep(ctx context.Context) {
	tick := time.NewTicker(s.Limits.Sweep)
	defer tick.Stop()
	missed, seen := map[cniwire.Attachment]time.Time{}, map[cniwire.Attachment]sighting{}
	for {
		missed = s.sweepOnce(ctx, missed)
		seen = s.sweepDeleted(ctx, seen, time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweepOnce undoes attachments whose container was gone in the sweep before (before), and returns those whose container is
// gone now, with the times of their checkpoints. It waits for the second sweep because a DEL may be on its way.
func (s *Server) sweepOnce(ctx context.Context, before map[cniwire.Attachment]time.Time) (missed map[cniwire.Attachment]time.Time) {
	missed = map[cniwire.Attachment]time.Time{}
	for _, r := range s.store.Select(isReady) {
		if gone, err := isGone(&r); !gone || err != nil || r.HostLink == "" {
			continue
		}
		id := r.Attachment()
		missed[id] = r.Since
		if since, again := before[id]; !again || !since.Equal(r.Since) {
			continue
		}
		s.undoMissed(ctx, r, "the namespace of an attachment is gone")
	}
	return missed
}

func (s *Server) undoMissed(ctx context.Context, r attachment.Record, why string) {
	unlock, busy := s.locks.Try(r.Attachment())
	if busy != nil {
		return // a command works on it
	}
	defer unlock()
	if now, still := s.store.Get(r.Attachment()); !still || now.State != r.State || !now.Since.Equal(r.Since) {
		return
	}
	log := s.Log.WithField("attachment", r.Attachment().String())
	if err := s.release(ctx, r); err != nil {
		log.WithError(err).Warn(why + "; going on to undo it in the background")
		return
	}
	log.Warn(why + ", undone")
}
