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
func New(l net.Listener, limits Limits) net.Listener {
	return &limited{Listener: l, limits: limits, open: map[netip.Addr]int{}}
}

// limited is a listener that counts.
type limited struct {
	net.Listener
	limits Limits

	mu      sync.Mutex
	open    map[netip.Addr]int // by source
	foreign int                // those that are part of All
}

// Accept waits for a connection of somebody who may have another one.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := l.sourceOf(c)
		if l.enter(source) {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(source) })}, nil
		}
		_ = c.Close() // nothing was said on it
	}
}

// sourceOf is the address that a connection comes from, none for the machine itself.
func (l *limited) sourceOf(c net.Conn) (source netip.Addr) {
	if at, isTCP := c.RemoteAddr().(*net.TCPAddr); isTCP && !at.IP.IsLoopback() {
		source = at.AddrPort().Addr().Unmap()
	}
	return source
}

func (l *limited) enter(source netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := l.limits.Each
	if !source.IsValid() {
		most = l.limits.Own
	}
	if l.open[source] >= most || source.IsValid() && l.foreign >= l.limits.All {
		return false
	}
	l.open[source]++
	if source.IsValid() {
		l.foreign++
	}
	return true
}

func (l *limited) leave(source netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[source]--; l.open[source] == 0 {
		delete(l.open, source)
	}
	if source.IsValid() {
		l.foreign--
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
