package k8splugin

import (
	"slices"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
)

// Attached lists the first interfaces of attached containers; of each pod only the latest sandbox: others are
// dead.
func (s *Server) Attached() (all []attachment.Record) {
	attached := s.store.Select(func(r *attachment.Record) bool { return isReady(r) && r.IfName == firstInterface })
	slices.SortStableFunc(attached, func(a, b attachment.Record) int { return b.Since.Compare(a.Since) })
	seen := map[string]bool{}
	for _, r := range attached {
		pod := r.PodNamespace + "/" + r.PodName
		if r.PodName == "" || !seen[pod] { // a container without a pod has no others
			all = append(all, r)
		}
		seen[pod] = true
	}
	return all
}

// tellAttached calls AttachedChanged and HostPortsChanged for a container that is attached or detached.
func (s *Server) tellAttached(r *attachment.Record) {
	if len(r.HostPorts) > 0 {
		s.HostPortsChanged()
	}
	s.AttachedChanged()
}
