package ovsd

import (
	"sync"

	"github.com/contiv/netplugin/utils/fault"
)

// Port number N stands for the link vvportN/vportN and asks for the OpenFlow
// number N+1, the tunnel having the first. OpenFlow numbers that can be asked
// for end at 65279.
const (
	lastNumber     uint32 = 65278
	endpointOffset        = tunnelNumber
)

// numbers gives out port numbers round-robin, so that a number just given back
// is not used again while somebody may still look at its old owner.
type numbers struct {
	mu    sync.Mutex
	last  uint32
	taken map[uint32]bool // of calls that have not finished
}

// startAfter continues behind the highest number in use.
func (n *numbers) startAfter(db *database) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for number := range usedNumbers(db) {
		n.last = max(n.last, number)
	}
}

// take reserves a number that no row of the database has.
func (n *numbers) take(db *database) (uint32, error) {
	used := usedNumbers(db)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taken == nil {
		n.taken = map[uint32]bool{}
	}
	for range lastNumber {
		n.last = n.last%lastNumber + 1
		if !used[n.last] && !n.taken[n.last] {
			n.taken[n.last] = true
			return n.last, nil
		}
	}
	return 0, fault.New(fault.Exhausted, "port numbers 1 to %d: all in use", lastNumber)
}

// busy tells whether somebody is making the link of a number.
func (n *numbers) busy(number uint32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.taken[number]
}

// release ends a reservation.
func (n *numbers) release(number uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.taken, number)
}

// usedNumbers are those of links in any bridge: names of links are global.
func usedNumbers(db *database) map[uint32]bool {
	used := map[uint32]bool{}
	for _, link := range db.interfaces.Rows() {
		if number, ok := hostLinkNumber(link.Name); ok {
			used[number] = true
		}
	}
	return used
}
