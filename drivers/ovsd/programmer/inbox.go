package programmer

import (
	"slices"
	"sync"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/notify"
)

// inbox holds the input of callers for the programmer.
type inbox struct {
	news notify.Signal // there is input

	mu      sync.Mutex
	changes []drivers.Change
	taken   bool // changes have been taken, and the programmer has not reported their results
	waiting []*ticket
}

// ticket is a waiting call of Sync.
type ticket struct {
	keys []pipeline.Key // none: all
	done chan error     // gets one value
}

func newInbox() *inbox { return &inbox{news: notify.New()} }

func (in *inbox) put(c drivers.Change) {
	in.mu.Lock()
	in.changes = append(in.changes, c)
	in.mu.Unlock()
	in.news.Send()
}

// wait returns a ticket that is answered once everything put before is in the switch.
func (in *inbox) wait(keys ...pipeline.Key) *ticket {
	t := &ticket{keys: keys, done: make(chan error, 1)}
	in.mu.Lock()
	in.waiting = append(in.waiting, t)
	in.mu.Unlock()
	in.news.Send()
	return t
}

// leave removes a ticket that has not been answered.
func (in *inbox) leave(t *ticket) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.waiting = slices.DeleteFunc(in.waiting, func(other *ticket) bool { return other == t })
}

// settled reports whether the programmer's last report covers all changes.
func (in *inbox) settled() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.changes) == 0 && !in.taken
}

// noteReported records that the results of the taken changes have been reported.
func (in *inbox) noteReported() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.taken = false
}

// take empties the inbox. The tickets wait for these changes, or for changes taken earlier; they stay
// until they are answered or leave.
func (in *inbox) take() ([]drivers.Change, []*ticket) {
	in.mu.Lock()
	defer in.mu.Unlock()
	changes := in.changes
	in.changes, in.taken = nil, in.taken || len(changes) > 0
	return changes, slices.Clone(in.waiting)
}

// answer answers a ticket.
func (in *inbox) answer(t *ticket, err error) {
	in.leave(t)
	t.done <- err
}
