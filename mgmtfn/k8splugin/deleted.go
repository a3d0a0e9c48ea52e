package k8splugin

import (
	"context"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
)

// A container runtime that has lost a sandbox leaves its network namespace, and nobody says DEL when Kubernetes has deleted the pod.
// That the API server has it no more does not end a pod, though: one that is deleted by force has all the time that it asks for to
// end, and kubelet may be away. So it counts as gone only when this server has seen its record and has seen it go, that time is over, and
// nobody has a socket in its namespace, at silentLooks in a row. A pod whose record does not say how long it may take, as that of a
// static pod, which goes with every mirror pod, is left alone.

// sighting is what was seen of the pod of an attachment.
type sighting struct {
	checkpoint time.Time // of the attachment: another one is of another container
	grace      int64     // seconds that the pod may take to end
	deleted    time.Time // when its record was first missed; zero: it is there
	silent     int       // at how many looks in a row nobody had a socket when the time was over
}

// silentLooks are for programs that have no socket from time to time.
const silentLooks = 10

// sweepDeleted undoes attachments whose pods have been deleted, and returns what is seen now.
func (s *Server) sweepDeleted(ctx context.Context, before map[cniwire.Attachment]sighting, now time.Time) (seen map[cniwire.Attachment]sighting) {
	seen = map[cniwire.Attachment]sighting{}
	if s.Recorded == nil {
		return seen
	}
	for _, r := range s.store.Select(isReady) {
		pod, there, complete := s.Recorded(r.PlacedUID)
		if there && pod.Grace > 0 {
			seen[r.Attachment()] = sighting{checkpoint: r.Since, grace: pod.Grace}
		}
		last, known := before[r.Attachment()]
		if there || !known || !last.checkpoint.Equal(r.Since) {
			continue
		}
		if !complete {
			seen[r.Attachment()] = sighting{checkpoint: r.Since, grace: last.grace}
			continue
		}
		seen[r.Attachment()] = s.missed(ctx, r, last, now)
	}
	return seen
}

// missed looks at an attachment whose pod has no record, and undoes it if it may be.
func (s *Server) missed(ctx context.Context, r attachment.Record, last sighting, now time.Time) sighting {
	if last.deleted.IsZero() {
		last.deleted = now
		return last
	}
	if now.Sub(last.deleted).Seconds() < float64(last.grace) {
		return last
	}
	silent, err := podlink.Silent(r.Netns, r.NetnsID)
	if err != nil {
		s.Log.WithField("attachment", r.Attachment().String()).WithError(err).Warn("its pod is deleted, and whether it has ended is not known; looking again")
	}
	if !silent {
		last.silent = 0
		return last
	}
	if last.silent++; last.silent >= silentLooks {
		s.undoMissed(ctx, r, "the pod of an attachment is deleted, and nobody uses its namespace")
	}
	return last
}
