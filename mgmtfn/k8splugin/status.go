package k8splugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

// readyPoll is the interval at which a waiting ADD checks the datapath.
const readyPoll = 20 * time.Millisecond

// outageGrace is how long the datapath may be down before STATUS fails under Kubernetes.
const outageGrace = 30 * time.Second

// status returns an error if an ADD could not be served. Under Kubernetes it checks this node only: an outage of
// what all nodes use, such as the leader, would make all nodes and their pods not ready.
func (s *Server) status(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, otherTime)
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

// Problem returns what is wrong with attaching containers though STATUS succeeds; empty: nothing. STATUS would make the
// node not ready, and its pods were evicted.
func (s *Server) Problem() string {
	if err := s.store.Problem(); err != nil {
		return fmt.Sprintf("no container can be attached: %v", err)
	}
	switch aside, err := s.store.SetAside(); {
	case err != nil:
		return err.Error()
	case len(aside) > 0:
		return fmt.Sprintf("checkpoints that could not be read: %s: a DEL of their containers gives nothing back, and their endpoints stay for minutes after that: remove the files when netctl endpoint ls does not list them any more",
			strings.Join(aside[:min(len(aside), asideNamed)], ", "))
	}
	return ""
}

// asideNamed is how many checkpoints that were set aside Problem names.
const asideNamed = 5

// ServesAsBefore reports whether the datapath, by its error notReady, lacks only the store, and has been ready
// since the boot: the flows of that time are still in force. All nodes may lose the store at once.
func (s *Server) ServesAsBefore(notReady error) bool {
	var reason interface{ StoreUnread() bool }
	return errors.As(notReady, &reason) && reason.StoreUnread() && cniwire.HasBeaten(s.SocketPath)
}

// awaitReady waits up to Limits.Ready for a datapath that is starting or reconnecting;
// an error would make the runtime wait longer before it retries.
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
