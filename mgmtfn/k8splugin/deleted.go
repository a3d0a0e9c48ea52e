package k8splugin

import (
	"context"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
)

// If a container runtime has lost a sandbox, its network namespace remains, and there is no DEL when Kubernetes
// deletes the pod. But a pod may still run although the API server no longer has it: after a forced deletion it
// has its whole grace period, and kubelet may be down. So a pod counts as gone only if this server has seen its
// record and then its removal, the grace period is over, and in silentLooks checks in a row no process had a
// socket in its namespace. A pod whose record has no grace period is never undone by this: for example a static
// pod, whose record is removed with each mirror pod.

// sighting is the last observation of an attachment's pod.
type sighting struct {
	checkpoint time.Time // of the attachment: another time means another container
	grace      int64     // the pod's grace period, in seconds
	deleted    time.Time // when its record was first missing; zero: it exists
	silent     int       // checks in a row without a socket, after the grace period
}

// silentLooks is more than one because a running program may at times have no socket.
const silentLooks = 10

// sweepDeleted undoes attachments of deleted pods, and returns the new observations.
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

// missed checks an attachment whose pod has no record, and undoes it if the pod counts as gone.
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
