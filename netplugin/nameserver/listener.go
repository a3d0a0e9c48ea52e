package nameserver

import (
	"net"
	"net/netip"
	"sync"
)

// fairListener accepts connections. One of an asker that has as many as it may
// is closed at once, so that nobody can take those of others.
type fairListener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[netip.Addr]int // by asker
}

func newFairListener(l net.Listener, most int) *fairListener {
	return &fairListener{Listener: l, most: most, open: map[netip.Addr]int{}}
}

// Accept waits for a connection of somebody who may have another one.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		asker := askerOf(conn.RemoteAddr())
		if l.enter(asker) {
			return &fairConn{Conn: conn, leave: sync.OnceFunc(func() { l.leave(asker) })}, nil
		}
		_ = conn.Close() // nothing was said on it
	}
}

func (l *fairListener) enter(asker netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[asker] >= l.most {
		return false
	}
	l.open[asker]++
	return true
}

func (l *fairListener) leave(asker netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[asker]--; l.open[asker] == 0 {
		delete(l.open, asker)
	}
}

// fairConn makes room for another one when it is closed.
type fairConn struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (c *fairConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
