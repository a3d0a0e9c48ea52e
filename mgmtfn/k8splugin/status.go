package k8splugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

// readyPoll is how often a waiting ADD asks the datapath again.
const readyPoll = 20 * time.Millisecond

// outageGrace is how long the datapath may be away until a node of Kubernetes says so.
const outageGrace = 30 * time.Second

// status tells whether an ADD could be served. Under Kubernetes it is about this node alone: what all
// nodes miss at once, such as a leader, would make all of them not ready, with all pods.
func (s *Server) status(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.Limits.Other)
	defer cancel()
	if err := s.Datapath.Ready(); err != nil {
		if s.Mode == Kubernetes && (cniwire.Beats(s.SocketPath, outageGrace) || s.ServesAsBefore(err)) {
			return nil
		}
		var affected interface{ PodsAffected() bool }
		if errors.As(err, &affected) && affected.PodsAffected() {
			return types.NewError(types.ErrLimitedConnectivity, fmt.Sprintf("datapath: %v", err), "attached containers are affected, too")
		}
		return types.NewError(types.ErrPluginNotAvailable, fmt.Sprintf("datapath is not ready: %v", err), "")
	}
	if s.Reachable != nil && s.Mode != Kubernetes {
		if err := s.Reachable(ctx); err != nil {
			return types.NewError(types.ErrPluginNotAvailable, fmt.Sprintf("master: %v", err), "")
		}
	}
	return nil
}

// ServesAsBefore tells whether a datapath that is not ready lacks no more than the store, and goes on
// with what it was given since the boot. All nodes may miss the store at once.
func (s *Server) ServesAsBefore(notReady error) bool {
	var reason interface{ StoreUnread() bool }
	return errors.As(notReady, &reason) && reason.StoreUnread() && cniwire.HasBeaten(s.SocketPath)
}

// awaitReady waits a while for a datapath that is starting or reconnecting;
// the runtime's own retry takes longer.
func (s *Server) awaitReady(ctx context.Context) error {
	err := s.Datapath.Ready()
	if err == nil {
		return nil
	}
	limit := time.NewTimer(s.Limits.Ready)
	defer limit.Stop()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err = s.Datapath.Ready(); err == nil {
				return nil
			}
		case <-limit.C:
			return types.NewError(types.ErrTryAgainLater, fmt.Sprintf("datapath is not ready: %v", err), "")
		case <-ctx.Done():
			return types.NewError(types.ErrTryAgainLater, fmt.Sprintf("datapath is not ready: %v", err), ctx.Err().Error())
		}
	}
}
