package k8splugin

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// HostPort is a port of the node that is forwarded to an endpoint.
type HostPort struct {
	mastercfg.HostPort
	EndpointID string
	Addresses  []netip.Prefix // of the endpoint
}

// HostPorts lists the ports of the node that are forwarded to attached containers. If two
// sandboxes have the same port, the latest has it: the other is dead. One container may have a port at
// all addresses of the node and, with another target, at one address.
func (s *Server) HostPorts() (all []HostPort) {
	attached := s.store.Select(func(r *attachment.Record) bool { return isReady(r) && hasHostPorts(r) })
	slices.SortStableFunc(attached, func(a, b attachment.Record) int { return b.Since.Compare(a.Since) })
	for _, r := range attached {
		others := all
		for i, p := range r.HostPorts {
			taken := slices.ContainsFunc(others, func(other HostPort) bool { return other.Clashes(p) }) ||
				slices.ContainsFunc(r.HostPorts[:i], p.SamePlace)
			if !taken {
				all = append(all, HostPort{p, r.EndpointID(), r.Link.Addresses})
			}
		}
	}
	return all
}

// hasHostPorts reports whether ports of the node are forwarded to an attachment. In checkpoints of earlier
// versions each interface of a pod has the pod's host ports; only those of the first one count.
func hasHostPorts(r *attachment.Record) bool {
	return len(r.HostPorts) > 0 && r.IfName == firstInterface
}

// begin writes the first checkpoint of a container. It fails if one of its host ports is taken by another
// pod or by the node itself. The scheduler avoids that, but pods with spec.nodeName bypass it.
func (s *Server) begin(r *attachment.Record) error {
	if len(r.HostPorts) > 0 {
		s.beginning.Lock()
		defer s.beginning.Unlock()
		taken := s.portTaken(r)
		if r.PlacedUID != "" { // else there is no pod object for an event
			s.TellPorts(r.PlacedUID, taken)
		}
		if taken != "" {
			return failed(stepLabels, fault.New(fault.Conflict, "%s: %s", mastercfg.HostPortConflict, taken))
		}
	}
	return failed(stepState, s.store.Begin(r, time.Now()))
}

// portTaken names the holder of one of a container's host ports; empty: all are free.
func (s *Server) portTaken(r *attachment.Record) string {
	if i := slices.IndexFunc(r.HostPorts, s.HoldsPort); i >= 0 {
		return fmt.Sprintf("pod %s/%s asks for %s of this node, which the node needs itself: ask for another one",
			r.PodNamespace, r.PodName, r.HostPorts[i])
	}
	others := s.store.Select(func(o *attachment.Record) bool {
		return o.State != attachment.Deleting && hasHostPorts(o) && (o.PodUID != r.PodUID || o.PodName != r.PodName || o.PodNamespace != r.PodNamespace)
	})
	for _, o := range others {
		for _, wanted := range r.HostPorts {
			if slices.ContainsFunc(o.HostPorts, wanted.Clashes) {
				return fmt.Sprintf("pod %s asks for %s of this node, which pod %s has: delete one of them, or let the scheduler choose the node",
					podOf(r), wanted, podOf(&o))
			}
		}
	}
	return ""
}

// podOf names the pod of an attachment, with its UID: a recreated pod has the same name.
func podOf(r *attachment.Record) string {
	return fmt.Sprintf("%s/%s (UID %s)", r.PodNamespace, r.PodName, r.PodUID)
}
