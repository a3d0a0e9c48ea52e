package objdb

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// conns are the open connections of a client. gRPC tells nobody which ones it has, and keeps one over which nothing is
// served as long as its peer answers pings; who knows better closes it, and gRPC makes another.
type conns struct {
	mu   sync.Mutex
	open map[*conn]struct{}
}

// conn is one of them.
type conn struct {
	net.Conn
	address string // dialled address
	of      *conns
	since   time.Time // since when calls are not served, guarded by of.mu; zero: the last one was
}

// dial opens a connection, which is recorded until it is closed.
func (c *conns) dial(ctx context.Context, address string) (net.Conn, error) {
	made, err := dialTCP(ctx, address)
	if err != nil {
		return nil, err
	}
	recorded := &conn{Conn: made, address: address, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*conn]struct{}{}
	}
	c.open[recorded] = struct{}{}
	return recorded, nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// leads reports whether the connection is one to the endpoint of a URL.
func (c *conn) leads(to string) bool {
	u, err := url.Parse(to)
	return err == nil && u.Host == c.address
}

// dialTCP connects to an endpoint. Unlike gRPC's own dialer it asks no proxy of the environment.
func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{Control: setUserTimeout}).DialContext(ctx, "tcp", address)
}

// setUserTimeout sets TCP_USER_TIMEOUT, so that the kernel closes a connection whose peer does not acknowledge data. gRPC sets it
// only for connections that it dials itself.
func setUserTimeout(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(pingTimeout/time.Millisecond))
	})
	return errors.Join(err, failed)
}
