package testbed

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// DialContext connects from the machine's network. The connection can be used from anywhere: a socket stays in the
// network in which it was created.
func (m *machine) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = m.inNamespace(fmt.Sprintf("/proc/%d/ns/net", m.pid), func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// InNetns calls open, whose sockets stay there, in a network namespace at a path of the machine.
func (m *machine) InNetns(path string, open func() error) error {
	return m.inNamespace(fmt.Sprintf("/proc/%d/root%s", m.pid, path), open)
}

// inNamespace calls a function on a thread in a network namespace.
func (m *machine) inNamespace(path string, call func() error) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread, which is now in a foreign network, ends with the goroutine.
		runtime.LockOSThread()
		err := m.join(path)
		if err == nil {
			err = call()
		}
		done <- err
	}()
	return <-done
}

// join moves the calling thread into a network namespace.
func (m *machine) join(path string) error {
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("machine %s: %w", m.name, err)
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("machine %s: enter %s: %w", m.name, path, err)
	}
	return nil
}
