package zones

import (
	"slices"
	"sync"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/notify"
)

// Tenants are those with networks on the bridges of a node. The zero value is a node without bridges.
type Tenants struct {
	mu      sync.Mutex
	bridges []*Bridge
}

// Add adds a bridge, whose limits its Run keeps.
func (t *Tenants) Add(config Config) *Bridge {
	b := &Bridge{config: config, node: t, news: notify.New(), networks: map[string]pipeline.Network{}, used: map[uint16]zoneUse{}}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bridges = append(t.bridges, b)
	return b
}

// several reports whether there is more than one.
func (t *Tenants) several() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	vrfs := map[uint16]bool{}
	for _, b := range t.bridges {
		for _, n := range b.networks {
			vrfs[n.VRF] = true
		}
	}
	return len(vrfs) > 1
}

// without reports whether no tenant has a zone. It is false until that is known of all bridges.
func (t *Tenants) without(zone uint16) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.bridges {
		if !b.whole {
			return false
		}
		for _, n := range b.networks {
			if zones := pipeline.Zones(n.VRF); slices.Contains(zones[:], zone) {
				return false
			}
		}
	}
	return true
}
