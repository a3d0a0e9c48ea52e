package ovsd

import (
	"strconv"
	"sync"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// Port number N stands for the link vvportN/vportN and requests the OpenFlow number N+1, the trunk having the
// first. OpenFlow numbers that can be requested end at 65279, which the name server's port has (names.go).
const (
	lastNumber     uint32 = 65277
	endpointOffset        = trunkNumber
)

// numbers assigns port numbers round-robin, so that a number just released is not reused while its old owner
// may still be known: the host's connection tracking has endpoints by addresses derived from it.
type numbers struct {
	mu    sync.Mutex
	last  uint32
	taken map[uint32]bool // of calls that have not finished
}

// startAfter continues after the last assigned number. If the bridge does not contain that, it is the highest in use.
func (n *numbers) startAfter(db *database) {
	n.mu.Lock()
	defer n.mu.Unlock()
	bridge, _ := db.ourBridge()
	if last, err := strconv.ParseUint(bridge.ExternalIDs[idLastNumber], 10, 32); err == nil {
		n.last = uint32(last)
		return
	}
	for _, link := range db.interfaces.Rows() {
		if number, ok := hostLinkNumber(link.Name); ok {
			n.last = max(n.last, number)
		}
	}
}

// latest returns the last assigned number.
func (n *numbers) latest() uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// take reserves a number that no link in any bridge has, as names are global. Its port shares no meters with
// another one, as long as there is such a number.
func (n *numbers) take(db *database) (uint32, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taken == nil {
		n.taken = map[uint32]bool{}
	}
	anyone := func(uint32) bool { return true }
	for _, fits := range []func(uint32) bool{n.alone(db), anyone} {
		for i := range lastNumber {
			number := (n.last+i)%lastNumber + 1
			if n.taken[number] || !fits(number) || db.hasInterface(hostLinkName(number)) {
				continue
			}
			n.last, n.taken[number] = number, true
			return number, nil
		}
	}
	return 0, fault.New(fault.Exhausted, "port numbers 1 to %d: all in use", lastNumber)
}

// alone returns a function that reports whether no port of the bridge, present or being made, has the meters of
// a number. Each meter is looked up once.
func (n *numbers) alone(db *database) func(number uint32) bool {
	used := map[uint32]bool{}
	for number := range n.taken {
		used[metersOf(number)] = true
	}
	return func(number uint32) bool {
		meters := metersOf(number)
		shared, known := used[meters]
		if !known {
			shared = db.hasPortWith(meters)
			used[meters] = shared
		}
		return !shared
	}
}

func metersOf(number uint32) uint32 { return pipeline.MetersOf(number + endpointOffset) }

// busy reports whether the link of a number is being made.
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
