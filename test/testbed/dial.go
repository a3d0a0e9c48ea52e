package testbed

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// DialContext connects from the machine's network. The connection is used from
// anywhere: a socket stays in the network it was made in.
func (m *machine) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		// Never unlocked: the thread, which is in a foreign network now, ends
		// with the goroutine.
		runtime.LockOSThread()
		var r result
		if r.err = m.joinNetwork(); r.err == nil {
			r.conn, r.err = new(net.Dialer).DialContext(ctx, network, address)
		}
		done <- r
	}()
	r := <-done
	return r.conn, r.err
}

// joinNetwork moves the calling thread into the machine's network.
func (m *machine) joinNetwork() error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.pid))
	if err != nil {
		return fmt.Errorf("machine %s: %w", m.name, err)
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("machine %s: enter its network: %w", m.name, err)
	}
	return nil
}
