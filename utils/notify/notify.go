// Package notify wakes a goroutine that waits for something to do.
package notify

// Signal is sent by anybody and received by one goroutine, from the channel that it is. Signals
// do not add up: many that are sent while nobody waits wake the next one who does once.
type Signal chan struct{}

// New makes a signal that has not been sent.
func New() Signal { return make(Signal, 1) }

// Send never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default: // the last one has not been received yet
	}
}
