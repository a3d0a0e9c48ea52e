package life

import (
	"errors"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// A server that answers late is stopped, and then runs for as long as one request takes.
const (
	stands = 2 * time.Second
	goesOn = 500 * time.Millisecond
)

// stutters has a process stopped most of the time, until end is called.
func stutters(p *testbed.Process) (end func() error) {
	stop, done := make(chan struct{}), make(chan error, 1)
	pause := func(length time.Duration) (over bool) {
		select {
		case <-stop:
			return true
		case <-time.After(length):
			return false
		}
	}
	go func() {
		for over := false; !over; {
			err := p.Suspend()
			over = pause(stands)
			if err = errors.Join(err, p.Resume()); err != nil {
				done <- err
				return
			}
			over = over || pause(goesOn)
		}
		done <- nil
	}()
	return func() error { close(stop); return <-done }
}
