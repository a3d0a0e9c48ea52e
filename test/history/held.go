package history

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

// heldIn returns the addresses of a network that are recorded as held.
func heldIn(w *World, n *contivmodel.Network) map[netip.Addr]bool {
	held := map[netip.Addr]bool{}
	prefix := heldPrefix + n.NetworkName + "." + n.TenantName + "/"
	for key := range w.Raw {
		if text, ok := strings.CutPrefix(key, prefix); ok {
			if a, err := netip.ParseAddr(text); err == nil { // else Compare reports it
				held[a] = true
			}
		}
	}
	return held
}

// holding tracks the held addresses over the revisions.
type holding struct {
	evidence *Evidence
	held     Held
	found    []string
}

// update checks the networks that a revision touched. Only an allocation makes an address held; an address of a
// deleted endpoint is not.
func (h *holding) update(w *World, touched map[string]bool, revision int64) {
	for _, n := range all[contivmodel.Network](w) {
		id := n.NetworkName + "." + n.TenantName
		if !touched[id] {
			continue
		}
		before, now := h.held[id], heldIn(w, n)
		for _, a := range slices.SortedFunc(maps.Keys(now), netip.Addr.Compare) {
			if !before[a] && !h.evidence.allocated(id, a, revision) {
				h.found = append(h.found, fmt.Sprintf("revision %d: address %s of network %s is taken, and nobody has it", revision, a, id))
			}
		}
		h.held[id] = now
		delete(touched, id)
	}
	for id := range touched {
		delete(h.held, id) // the network was deleted
	}
}
