package fairlisten

import (
	"errors"
	"io"
	"net"
	"testing"
)

// arrivals is a listener that accepts the next connections, and then returns io.EOF.
type arrivals struct {
	net.Listener
	next []net.Conn
}

func (a *arrivals) Accept() (net.Conn, error) {
	if len(a.next) == 0 {
		return nil, io.EOF
	}
	c := a.next[0]
	a.next = a.next[1:]
	return c, nil
}

// from is a connection with a client's address.
type from struct {
	net.Conn
	ip     string
	closed bool
}

func (f *from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.ip), Port: 1} }

func (f *from) Close() error {
	f.closed = true
	return nil
}

func TestNobodyTakesThePlacesOfOthers(t *testing.T) {
	const loud, quiet, late, own = "192.0.2.1", "::ffff:192.0.2.2", "2001:db8::1", "127.0.0.1"
	var coming arrivals
	counted := newShares(Limits{Each: 2, All: 3, Own: 3})
	listener := By(&coming, counted.admit)
	open := map[string][]net.Conn{}
	for i, c := range []struct {
		goes, comes string
		served      bool
	}{
		{"", loud, true}, {"", loud, true}, {"", loud, false}, // the third of one address
		{"", quiet, true}, {"", late, false}, // the fourth of all
		{"", own, true}, {"", "::1", true}, {"", own, true}, {"", "127.0.0.2", false}, // the machine has places of its own
		{loud, late, true}, {"", loud, false}, {quiet, loud, true},
		{own, late, false}, {"", own, true}, // which are for nobody else
	} {
		if c.goes != "" {
			for range 2 { // counted once
				if err := open[c.goes][0].Close(); err != nil {
					t.Fatal(err)
				}
			}
			open[c.goes] = open[c.goes][1:]
		}
		arrived := &from{ip: c.comes}
		coming.next = append(coming.next, arrived)
		conn, err := listener.Accept()
		if served := err == nil; served != c.served || served == arrived.closed || !served && !errors.Is(err, io.EOF) {
			t.Errorf("step %d: connection of %s: served %t, closed %t (%v), want served %t", i, c.comes, served, arrived.closed, err, c.served)
		} else if served {
			open[c.comes] = append(open[c.comes], conn)
		}
	}
	for _, conns := range open {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	if len(counted.open) != 0 || counted.foreign != 0 {
		t.Errorf("all have gone, and counted are %v, %d", counted.open, counted.foreign)
	}
}
