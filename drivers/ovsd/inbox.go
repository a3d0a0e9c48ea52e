package ovsd

import (
	"sync"

	"github.com/contiv/netplugin/drivers"
)

// inbox is where callers leave work for the programmer.
type inbox struct {
	news chan struct{} // at most one: there is something to look at

	mu      sync.Mutex
	changes []drivers.Change
	tickets []chan error
}

func newInbox() *inbox { return &inbox{news: make(chan struct{}, 1)} }

// wake makes the programmer look around.
func (in *inbox) wake() {
	select {
	case in.news <- struct{}{}:
	default: // it has not looked since the last time
	}
}

func (in *inbox) put(c drivers.Change) {
	in.mu.Lock()
	in.changes = append(in.changes, c)
	in.mu.Unlock()
	in.wake()
}

// ticket returns a channel that gets one value once everything put before is
// in the switch.
func (in *inbox) ticket() <-chan error {
	t := make(chan error, 1)
	in.mu.Lock()
	in.tickets = append(in.tickets, t)
	in.mu.Unlock()
	in.wake()
	return t
}

// empty tells whether all changes have been taken.
func (in *inbox) empty() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.changes) == 0
}

// take empties the inbox. The tickets were put behind the changes, or behind
// changes taken earlier.
func (in *inbox) take() ([]drivers.Change, []chan error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	changes, tickets := in.changes, in.tickets
	in.changes, in.tickets = nil, nil
	return changes, tickets
}
