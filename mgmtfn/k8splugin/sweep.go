package k8splugin

import (
	"context"
	"os"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

// beat touches the heartbeat while containers can be attached, or attached ones are served as
// before, until ctx ends.
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

// sweep undoes, until ctx ends, attachments whose containers are gone, and those whose pods are though the namespace is not. Kubelet
// says DEL for most of them; container runtimes never say GC.
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

// sweepOnce undoes what has been missed before, and returns what is missed now with the
// time of its checkpoint: a DEL may be on its way.
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
