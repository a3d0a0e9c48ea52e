package ovsd

import (
	"sync"

	"github.com/contiv/netplugin/ofnet/ovsdb"
)

// ownPorts is an index of the ports of our bridge, so that its row is not searched for each of them.
// It is as of the last update.
type ownPorts struct {
	mu  sync.Mutex
	ids map[ovsdb.UUID]int // in how many rows of a bridge of our name: a new one may be reported before the deletion of the old one
}

// change applies a change of a bridge's row, if it is ours.
func (o *ownPorts) change(c ovsdb.Change[bridgeRow], bridge string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids = map[ovsdb.UUID]int{}
	}
	count := func(row *bridgeRow, step int) {
		if row == nil || row.Name != bridge {
			return
		}
		for _, id := range row.Ports {
			if o.ids[id] += step; o.ids[id] == 0 {
				delete(o.ids, id)
			}
		}
	}
	count(c.New, 1)
	count(c.Old, -1)
}

func (o *ownPorts) has(id ovsdb.UUID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ids[id] > 0
}
