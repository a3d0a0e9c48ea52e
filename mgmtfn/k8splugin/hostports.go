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

// HostPort is a port of the node that leads to an endpoint.
type HostPort struct {
	mastercfg.HostPort
	EndpointID string
	Addresses  []netip.Prefix // of the endpoint
}

// HostPorts lists the ports of the node that lead to attached containers. Of several
// containers of one pod the last one counts: the others are dead. One of them may have a port at
// all addresses, and lead that at one address elsewhere.
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

// hasHostPorts tells whether ports of the node lead to an attachment. Records of earlier versions have those of their
// pod for each of its interfaces.
func hasHostPorts(r *attachment.Record) bool {
	return len(r.HostPorts) > 0 && r.IfName == firstInterface
}

// begin writes the first checkpoint of a container, unless another pod, or the node itself, has
// a port of the node that it wants. The scheduler keeps pods apart, but not those that name their node.
func (s *Server) begin(r *attachment.Record) error {
	if len(r.HostPorts) > 0 {
		s.beginning.Lock()
		defer s.beginning.Unlock()
		taken := s.portTaken(r)
		if r.PlacedUID != "" { // else netmaster cannot tell it to anybody
			s.TellPorts(r.PlacedUID, taken)
		}
		if taken != "" {
			return failed(stepLabels, fault.New(fault.Conflict, "%s: %s", mastercfg.HostPortConflict, taken))
		}
	}
	return failed(stepState, s.store.Begin(r, time.Now()))
}

// portTaken says who has a port of the node that a container is to have; empty: nobody has any of them.
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

// podOf names the pod of an attachment. One that is made again has the name of the one before, but not its UID.
func podOf(r *attachment.Record) string {
	return fmt.Sprintf("%s/%s (UID %s)", r.PodNamespace, r.PodName, r.PodUID)
}
