package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
)

// conn is a connection to the server with blocking system calls. With the standard library's poller, each wait
// would end on another thread: on a busy node the answer then waits once more for a processor.
type conn struct {
	fd       int
	deadline time.Time
}

// dial connects to a unix socket. Reads and writes end at the deadline, with an error that is
// os.ErrDeadlineExceeded.
func dial(deadline time.Time, socket string) (*conn, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	c := &conn{fd: fd, deadline: deadline}
	err = c.wait(syscall.SO_SNDTIMEO, func() error { return syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", socket, err), c.Close())
	}
	return c, nil
}

// send writes all data; file is passed with the first bytes, unless it is nil.
func (c *conn) send(data []byte, file *os.File) error {
	var rights []byte
	if file != nil {
		rights = syscall.UnixRights(int(file.Fd()))
	}
	for len(data) > 0 {
		err := c.wait(syscall.SO_SNDTIMEO, func() error {
			n, err := syscall.SendmsgN(c.fd, data, rights, nil, syscall.MSG_NOSIGNAL)
			if err == nil {
				data, rights = data[n:], nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	runtime.KeepAlive(file)
	return nil
}

// Read implements io.Reader.
func (c *conn) Read(p []byte) (n int, err error) {
	err = c.wait(syscall.SO_RCVTIMEO, func() (err error) {
		n, err = syscall.Read(c.fd, p)
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Close closes the connection.
func (c *conn) Close() error { return os.NewSyscallError("close", syscall.Close(c.fd)) }

// wait makes a call that lasts until the deadline at most, and repeats it when a signal interrupts it.
func (c *conn) wait(option int, call func() error) error {
	for {
		left := time.Until(c.deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		limit := syscall.NsecToTimeval(max(left, time.Microsecond).Nanoseconds()) // zero would be no limit
		if err := syscall.SetsockoptTimeval(c.fd, syscall.SOL_SOCKET, option, &limit); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
		switch err := call(); {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return os.ErrDeadlineExceeded
		default:
			return err
		}
	}
}
