package k8splugin

import (
	"context"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/rootsocket"
)

// descriptorConn is a connection on which a client may pass a file descriptor (SCM_RIGHTS) with a request: that of
// the container's network namespace, whose path may not exist in the mount namespace of this process.
type descriptorConn struct {
	*rootsocket.Conn

	mu     sync.Mutex
	passed *os.File // the latest, until takePassed
}

// descriptorListener accepts connections on which descriptors may be passed.
type descriptorListener struct{ *rootsocket.Listener }

// Accept returns a *descriptorConn.
func (l descriptorListener) Accept() (net.Conn, error) {
	conn, err := l.AcceptRoot()
	if err != nil {
		return nil, err
	}
	return &descriptorConn{Conn: conn}, nil
}

// Read reads bytes and stores a descriptor received with them.
func (c *descriptorConn) Read(b []byte) (int, error) {
	control := make([]byte, unix.CmsgSpace(4)) // one descriptor; the kernel closes further ones
	n, controlLen, _, _, err := c.ReadMsgUnix(b, control)
	if controlLen > 0 {
		c.keep(descriptors(control[:controlLen]))
	}
	return max(n, 0), err // -1 with some errors
}

func descriptors(control []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		if rights, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, rights...)
		}
	}
	return fds
}

func (c *descriptorConn) keep(fds []int) {
	for _, fd := range fds {
		file := os.NewFile(uintptr(fd), "passed by the client")
		if before := c.swap(file); before != nil {
			_ = before.Close() // was only read
		}
	}
}

func (c *descriptorConn) swap(file *os.File) (before *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.passed = c.passed, file
	return before
}

// Close also closes a descriptor that takePassed did not return.
func (c *descriptorConn) Close() error {
	if left := c.swap(nil); left != nil {
		_ = left.Close() // was only read
	}
	return c.Conn.Close()
}

type connKey struct{}

// withConn puts the connection of a request in its context.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// takePassed returns the file that was passed on the connection of a request, or nil. The
// caller closes it.
func takePassed(ctx context.Context) *os.File {
	if conn, ok := ctx.Value(connKey{}).(*descriptorConn); ok {
		return conn.swap(nil)
	}
	return nil
}
