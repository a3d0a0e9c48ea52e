package bgp_test

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// Wrong AS, and garbage.
func TestLongANeighbourThatIsNotTheOneIsRefusedWithAReason(t *testing.T) {
	testkit.TakesLong(t)
	testkit.NeedsMachine(t)
	run(t, "ip", "link", "set", "lo", "up")
	a := newLink(t, 0)
	s, log, _ := start(t, bgp.Config{})
	s.Configure(&bgp.Settings{AS: ourAS, Router: a.near, Neighbours: []bgp.Neighbour{{Address: a.own, AS: theirAS}}})
	a.speak(bgp.Settings{AS: theirAS + 1, Router: a.own, Neighbours: []bgp.Neighbour{{Address: a.near, AS: ourAS}}})
	a.do(order{Add: []netip.Prefix{prefix("0.0.0.0/0")}})
	eventually(t, "the wrong AS is told", func() bool { return strings.Contains(s.Status(a.own).LastError, "peer") })
	if !logged(log, "BGP neighbour is not reached") || len(s.Routes()) != 0 {
		t.Errorf("routes %v", s.Routes())
	}
	a.stop()

	// Whoever connects and is no neighbour is closed, whatever he says.
	for range 20 {
		conn, err := net.Dial("tcp", net.JoinHostPort(a.near.String(), "179"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(strings.Repeat("garbage ", 1000)))
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("answered: %v", err)
		}
		_ = conn.Close()
	}
	// A neighbour's garbage costs its session only.
	fakenode.InNamespace(t, a.netns, "bash", "-c", "exec 3<>/dev/tcp/"+a.near.String()+"/179; head -c 5000 /dev/urandom >&3; cat <&3 >/dev/null || true")
	a.speak(bgp.Settings{AS: theirAS, Router: a.own, Neighbours: []bgp.Neighbour{{Address: a.near, AS: ourAS}}})
	a.do(order{Add: []netip.Prefix{prefix("0.0.0.0/0")}})
	eventually(t, "the right one is heard", func() bool { return s.NextHops(prefix("0.0.0.0/0")) != nil })
}

func TestLongANeighbourWithTooManyRoutesIsClosedForAWhile(t *testing.T) {
	testkit.TakesLong(t)
	testkit.NeedsMachine(t)
	run(t, "ip", "link", "set", "lo", "up")
	a := newLink(t, 0)
	const limit = 100
	s, log, _ := start(t, bgp.Config{MaxRoutes: limit, ClosedTime: time.Second})
	s.Configure(&bgp.Settings{AS: ourAS, Router: a.near, Neighbours: []bgp.Neighbour{{Address: a.own, AS: theirAS}}})
	a.speak(bgp.Settings{AS: theirAS, Router: a.own, Neighbours: []bgp.Neighbour{{Address: a.near, AS: ourAS}}})
	a.do(order{Count: limit})
	eventually(t, "as many as allowed", func() bool { return len(s.Routes()) == limit })
	a.do(order{Count: limit + 1})
	eventually(t, "it is closed", func() bool { return logged(log, "more routes than the limit") })
	eventually(t, "its routes are gone", func() bool { return len(s.Routes()) == 0 })
	// 100.64.0.0 + 100
	a.do(order{Remove: []netip.Prefix{prefix("100.64.0.100/32")}})
	eventually(t, "it is opened again", func() bool { return len(s.Routes()) == limit })
}
