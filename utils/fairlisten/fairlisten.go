// Package fairlisten limits the connections of a server, and those from one address among them, so that no client
// can occupy the connections of others. Excess connections are closed at once: they would wait for an unlimited
// time.
package fairlisten

import (
	"net"
	"net/netip"
	"sync"
)

// Limits of a listener.
type Limits struct {
	Each int // connections from one address
	All  int // from all addresses
	// From loopback; they do not count for All, so that monitoring of the server is always possible.
	Own int
}

// New returns a listener with limits.
func New(l net.Listener, limits Limits) net.Listener { return By(l, newShares(limits).admit) }

// By returns a listener of admitted connections. admit reports whether a source may open another connection, and
// returns the function to call, once, when that is closed; it may be called from several goroutines.
func By(l net.Listener, admit func(source net.Addr) (leave func(), ok bool)) net.Listener {
	return &listener{l, admit}
}

type listener struct {
	net.Listener
	admit func(net.Addr) (leave func(), ok bool)
}

// Accept waits for an admitted connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave, ok := l.admit(c.RemoteAddr()); ok {
			return &conn{Conn: c, leave: sync.OnceFunc(leave)}, nil
		}
		_ = c.Close() // nothing was sent on it
	}
}

// shares counts the open connections.
type shares struct {
	limits Limits

	mu      sync.Mutex
	open    map[netip.Addr]int // by source
	foreign int                // those that count for All
}

func newShares(limits Limits) *shares { return &shares{limits: limits, open: map[netip.Addr]int{}} }

func (s *shares) admit(from net.Addr) (leave func(), ok bool) {
	source := sourceOf(from)
	return func() { s.leave(source) }, s.enter(source)
}

// sourceOf returns the address of a client; invalid for loopback.
func sourceOf(from net.Addr) (source netip.Addr) {
	if at, isTCP := from.(*net.TCPAddr); isTCP && !at.IP.IsLoopback() {
		source = at.AddrPort().Addr().Unmap()
	}
	return source
}

func (s *shares) enter(source netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.limits.Each
	if !source.IsValid() {
		most = s.limits.Own
	}
	if s.open[source] >= most || source.IsValid() && s.foreign >= s.limits.All {
		return false
	}
	s.open[source]++
	if source.IsValid() {
		s.foreign++
	}
	return true
}

func (s *shares) leave(source netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[source]--; s.open[source] == 0 {
		delete(s.open, source)
	}
	if source.IsValid() {
		s.foreign--
	}
}

// conn releases its share when it is closed.
type conn struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
