// Package notify wakes a goroutine that waits for something to do.
package notify

// Signal is a channel with any number of senders and one receiver. Sends are merged: many sends while the receiver
// is busy wake it once.
type Signal chan struct{}

// New returns a signal without a pending send.
func New() Signal { return make(Signal, 1) }

// Send never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default: // the last send is still pending
	}
}
