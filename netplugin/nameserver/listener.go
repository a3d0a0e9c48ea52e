package nameserver

import (
	"net"
	"net/netip"
	"sync"
)

// fairListener accepts connections. One of an asker that has as many as it may, of a tenant
// that has its share, or of nobody we know is closed at once, so that nobody can take those
// of others. A tenant opens one while it has fewer than there is room for still, as it begins
// questions to others, see the bounds of forwarding.
type fairListener struct {
	net.Listener
	tenant func(asker netip.Addr) (tenant string, known bool)

	mu       sync.Mutex
	open     int
	byAsker  map[netip.Addr]int
	byTenant map[string]int
}

func newFairListener(l net.Listener, tenant func(netip.Addr) (string, bool)) *fairListener {
	return &fairListener{Listener: l, tenant: tenant, byAsker: map[netip.Addr]int{}, byTenant: map[string]int{}}
}

// Accept waits for a connection of somebody who may have another one.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		asker := askerOf(conn.RemoteAddr())
		if tenant, known := l.tenant(asker); known && l.enter(tenant, asker) {
			return &fairConn{Conn: conn, leave: sync.OnceFunc(func() { l.leave(tenant, asker) })}, nil
		}
		_ = conn.Close() // nothing was said on it
	}
}

func (l *fairListener) enter(tenant string, asker netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byAsker[asker] >= maxOfAsker || l.byTenant[tenant] >= maxConnections-l.open {
		return false
	}
	l.open++
	l.byAsker[asker]++
	l.byTenant[tenant]++
	return true
}

func (l *fairListener) leave(tenant string, asker netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.byAsker[asker]--; l.byAsker[asker] == 0 {
		delete(l.byAsker, asker)
	}
	if l.byTenant[tenant]--; l.byTenant[tenant] == 0 {
		delete(l.byTenant, tenant)
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
