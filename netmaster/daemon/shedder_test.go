package daemon

import (
	"net"
	"testing"
)

// from is a connection with a given remote address.
type from struct {
	net.Conn
	ip   string
	port int
}

func (f *from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.ip), Port: f.port} }

func TestOneMachineDoesNotTakeTheConnectionsOfOthers(t *testing.T) {
	s := newShedder(80) // 10 for each address
	conns := map[string][]net.Conn{}
	add := func(ip string) (victim net.Conn) {
		c := &from{ip: ip, port: len(conns[ip])}
		conns[ip] = append(conns[ip], c)
		if victim = s.add(c); victim != nil {
			s.remove(victim)
		}
		return victim
	}
	const other, loud = "192.0.2.1", "192.0.2.2"
	add(other)
	for i := range 30 {
		victim := add(loud)
		if i < 10 && victim != nil {
			t.Fatalf("connection %d of a machine costs %v its place", i, victim.RemoteAddr())
		}
		if i >= 10 && victim != conns[loud][i-10] {
			t.Fatalf("connection %d of a machine does not take the place of its oldest one, but of %v", i, victim)
		}
	}
	if s.count() != 11 || len(s.sources) != 2 {
		t.Errorf("%d connections are left, of %d machines", s.count(), len(s.sources))
	}

	// Connections with an answer in progress are not part of the share: a netmaster forwards for many clients, and
	// its new connections are in their handshakes.
	for _, c := range conns[loud][20:] {
		s.setBusy(c)
	}
	for i := range 10 {
		if victim := add(loud); victim != nil {
			t.Errorf("newcomer %d costs %v its place, though all others of its machine are being answered", i, victim.RemoteAddr())
		}
	}
	if victim := add(loud); victim != conns[loud][30] {
		t.Errorf("one newcomer too many takes the place of %v, not of the first newcomer", victim)
	}
	for _, c := range conns[loud][20:30] {
		s.setIdle(c)
	}
	if victim := add(loud); victim != conns[loud][31] {
		t.Errorf("%v goes, not the one that was silent longest", victim)
	}
	for i := range 30 {
		if victim := add("127.0.0.1"); victim != nil {
			t.Fatalf("connection %d of the machine itself costs %v its place", i, victim.RemoteAddr())
		}
	}
	for _, list := range conns {
		for _, c := range list {
			s.remove(c)
		}
	}
	if s.count() != 0 || len(s.sources) != 0 || s.silent.Len() != 0 {
		t.Errorf("%d connections, %d machines and %d silent ones are left", s.count(), len(s.sources), s.silent.Len())
	}
}
