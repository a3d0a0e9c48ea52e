package pipeline

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// dialFrom connects from an address and a port that another connection may use, too.
func (p *pod) dialFrom(from, to netip.AddrPort) net.Conn {
	p.t.Helper()
	d := net.Dialer{Timeout: soon, LocalAddr: net.TCPAddrFromAddrPort(from), Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }); failed != nil {
			return failed
		}
		return err
	}}
	var c net.Conn
	err := p.inside(func() (err error) {
		c, err = d.Dial("tcp", to.String())
		return err
	})
	if err != nil {
		p.t.Fatalf("%s connects: %v", p.netns, err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

// synAgain returns the number of retransmitted SYNs of this end of a connection.
func synAgain(t *testing.T, c net.Conn) (again uint32) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err == nil {
		failed := raw.Control(func(fd uintptr) {
			var info *unix.TCPInfo
			if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				again = info.Total_retrans
			}
		})
		if err == nil {
			err = failed
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// answerOn returns the server of a connection, and the client address that it sees.
func answerOn(t *testing.T, c net.Conn) string {
	t.Helper()
	buffer := make([]byte, 100)
	if err := c.SetDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		return err.Error()
	}
	n, err := c.Read(buffer)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(buffer[:n]))
}

// An external client, such as a load balancer, connects through several nodes, sometimes from the same source
// port, as the destination addresses differ. All reach one provider. Both connections continue, and a new one
// after the other's end connects at once.
func TestAClientOutsideAsksByTwoNodesFromOnePort(t *testing.T) {
	third := endpoint("web3", webBlue, 3, front)
	third.VTEP = vtep3
	c := startCluster(t, web1, web2, third)
	s := serving(FromPods|FromHost, addressesOf(web1), external, external6)
	near, far, other := c.withOutside(web1, s), c.withOutside(web2, s), c.withOutside(third, s)
	c.pod(web1).serveShop()
	source := uint16(31000)
	for i, at := range []netip.Addr{external, external6} {
		for _, host := range []*pod{near, far, other} {
			host.route(at)
		}
		want := web1.ID + " " + beyond[i].String()
		for _, by := range [][2]*pod{{near, far}, {far, near}, {far, other}} {
			for _, ended := range []bool{false, true} {
				source++
				from, to := netip.AddrPortFrom(beyond[i], source), netip.AddrPortFrom(at, 80)
				told := fmt.Sprintf("%s by %s, then %s, first ended %t", at, by[0].netns, by[1].netns, ended)
				first := by[0].dialFrom(from, to)
				if got := answerOn(t, first); got != want {
					t.Errorf("%s: the first %q, want %q", told, got, want)
				}
				if ended {
					_ = first.Close()
				}
				second := by[1].dialFrom(from, to)
				if again := synAgain(t, second); again > 0 {
					t.Errorf("%s: the second connects after %d repeated SYNs", told, again)
				}
				for range 2 {
					if got := answerOn(t, second); got != want {
						t.Errorf("%s: the second %q, want %q", told, got, want)
					}
					if ended {
						continue
					}
					if got := answerOn(t, first); got != want {
						t.Errorf("%s: the first, again %q, want %q", told, got, want)
					}
				}
			}
		}
	}
}

// A connection by another node is tracked by the switch port number of its provider, which another endpoint may
// get later. So it is flushed with the provider, and no other connection is.
func TestConnectionsThatCameByAnotherNodeEndWithTheirProvider(t *testing.T) {
	c := startCluster(t, web1, db1, web2)
	s := serving(FromPods|FromHost, addressesOf(web1, db1), external, external6)
	far := c.withOutside(web2, s)
	n := c.pod(web1).node
	left := func(e Endpoint) (all int) {
		for line := range strings.Lines(n.Appctl("dpctl/dump-conntrack")) {
			for i, a := range []netip.Addr{e.IPv4, e.IPv6} {
				if strings.Contains(line, fmt.Sprintf("reply=(src=%s,dst=%s,", a, beyond[i])) && strings.Contains(line, fmt.Sprintf("zone=%d,", blueVRF)) {
					all++
				}
			}
		}
		return all
	}
	for _, e := range []Endpoint{web1, db1} {
		c.pod(e).serveShop()
	}
	source := uint16(31000)
	for i, at := range []netip.Addr{external, external6} {
		far.route(at)
		for seen := map[string]bool{}; len(seen) < 2; source++ {
			if source == 31100 {
				t.Fatalf("not all providers answer: %v", seen)
			}
			seen[answerOn(t, far.dialFrom(netip.AddrPortFrom(beyond[i], source), netip.AddrPortFrom(at, 80)))] = true
		}
	}
	before := left(db1)
	var ends []openflow.Message
	for _, end := range ConnectionsOf(here(web1)) {
		ends = append(ends, end)
	}
	n.connected(t, func(conn *openflow.Conn) error { return conn.Send(t.Context(), ends...) })
	if left(web1) != 0 || left(db1) != before || before < 2 {
		t.Errorf("%d connections of the provider are left, and of another one %d of %d", left(web1), left(db1), before)
	}
}
