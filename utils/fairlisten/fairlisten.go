// Package fairlisten bounds the connections of a server, and those of one address among them, so
// that nobody can take the places of others. One too many is closed at once: it would wait for as
// long as others please.
package fairlisten

import (
	"net"
	"net/netip"
	"sync"
)

// Limits of a listener.
type Limits struct {
	Each int // connections of one address
	All  int // of all addresses
	// Of the machine itself, at loopback: they are no part of All, so that who watches over
	// the server gets through.
	Own int
}

// New is a listener that keeps limits.
func New(l net.Listener, limits Limits) net.Listener { return By(l, newShares(limits).admit) }

// By is a listener of those who are admitted. Admit says whether somebody at an address may have another
// connection, and what is called, once, when that is closed; several goroutines may close connections.
func By(l net.Listener, admit func(source net.Addr) (leave func(), ok bool)) net.Listener {
	return &listener{l, admit}
}

type listener struct {
	net.Listener
	admit func(net.Addr) (leave func(), ok bool)
}

// Accept waits for a connection of somebody who may have another one.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave, ok := l.admit(c.RemoteAddr()); ok {
			return &conn{Conn: c, leave: sync.OnceFunc(leave)}, nil
		}
		_ = c.Close() // nothing was said on it
	}
}

// shares are the connections that there are.
type shares struct {
	limits Limits

	mu      sync.Mutex
	open    map[netip.Addr]int // by source
	foreign int                // those that are part of All
}

func newShares(limits Limits) *shares { return &shares{limits: limits, open: map[netip.Addr]int{}} }

func (s *shares) admit(from net.Addr) (leave func(), ok bool) {
	source := sourceOf(from)
	return func() { s.leave(source) }, s.enter(source)
}

// sourceOf is the address that somebody comes from, none for the machine itself.
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

// conn makes room for another one when it is closed.
type conn struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
