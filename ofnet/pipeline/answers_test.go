package pipeline

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// netmaster makes two rules of one that allows a port: one for packets to it, one for its answers. The second one
// must not allow new connections from that port to a group that accepts none.
func TestAnAllowedPortAnswersAndBeginsNothing(t *testing.T) {
	c := startCluster(t, web1, db1, db2)
	const sql, ssh = 5432, 22
	for _, server := range []Endpoint{db1, db2} {
		c.pod(server).serve(sql)
	}
	c.pod(web1).serve(ssh)
	c.program(
		rule("none-to-front", 1, func(r *Rule) { r.DstGroup = front }),
		rule("none-to-store", 1, func(r *Rule) { r.DstGroup = store }),
		tcpRule("to-sql", 10, sql, "", true),
		tcpRule("to-closed", 10, sql+1, "", true),
		rule("sql-answers", 10, func(r *Rule) { r.SrcGroup, r.DstGroup, r.Protocol, r.SrcPort, r.Allow = store, front, 6, sql, true }),
		rule("closed-answers", 10, func(r *Rule) { r.SrcGroup, r.DstGroup, r.Protocol, r.SrcPort, r.Allow = store, front, 6, sql+1, true }),
	)
	// dials returns the error of a connection from a port; 0: any port.
	dials := func(from Endpoint, port int, to netip.Addr, at uint16) error {
		d := net.Dialer{Timeout: soon, LocalAddr: &net.TCPAddr{Port: port}}
		if port == sql+1 {
			d.Timeout = never
		}
		return c.pod(from).inside(func() error {
			conn, err := d.Dial("tcp", netip.AddrPortFrom(to, at).String())
			if err == nil {
				_ = conn.Close()
			}
			return err
		})
	}
	for _, server := range []Endpoint{db1, db2} { // on the same node, on another
		for i, to := range []netip.Addr{server.IPv4, server.IPv6} {
			if !c.pod(web1).connects(to, sql, true) {
				t.Errorf("front does not reach the allowed port at %s", to)
			}
			if err := dials(web1, 0, to, sql+1); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("at a port of %s that nobody has front is told %v, want that it is refused", to, err)
			}
			client := []netip.Addr{web1.IPv4, web1.IPv6}[i]
			if err := dials(server, sql+1, client, ssh); err == nil {
				t.Errorf("%s begins a connection to %s, from a port that may only answer", server.ID, fmt.Sprint(client, " port ", ssh))
			}
		}
	}
}
