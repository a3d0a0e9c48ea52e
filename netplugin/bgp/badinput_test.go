package bgp_test

import (
	"net"
	"net/netip"
	"os"
	"runtime"
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

	// A connection from an address that is no neighbour's is closed, whatever it sends.
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

// A neighbour that sends ten times too many routes, and one that flaps, cost the others nothing, and us a bounded
// amount.
func TestLongTheTroubleOfANeighbourIsItsOwn(t *testing.T) {
	testkit.TakesLong(t)
	testkit.NeedsMachine(t)
	run(t, "ip", "link", "set", "lo", "up")
	bad, good := newLink(t, 0), newLink(t, 1)
	us := bad.near
	run(t, "ip", "address", "replace", us.String()+"/32", "dev", "lo")
	fakenode.InNamespace(t, good.netns, "ip", "route", "add", us.String(), "via", good.near.String())
	run(t, "ip", "route", "replace", good.own.String(), "dev", "to1", "src", us.String())
	s, log, _ := start(t, bgp.Config{})
	ours, lan := prefix("10.1.1.5/32"), prefix("198.51.100.0/24")
	s.Announce([]netip.Prefix{ours}, nil)
	s.Configure(&bgp.Settings{AS: ourAS, Router: us, Neighbours: []bgp.Neighbour{{Address: bad.own, AS: theirAS}, {Address: good.own, AS: theirAS, HoldTime: 3 * time.Second}}})
	good.speak(bgp.Settings{AS: theirAS, Router: good.own, Neighbours: []bgp.Neighbour{{Address: us, AS: ourAS}}}, lan)
	eventually(t, "the good neighbour's route", func() bool { return s.NextHops(lan) != nil })
	good.hears(ours, us)
	s.AllChanges()
	heard := good.count()
	undisturbed := func(by string) {
		t.Helper()
		for _, c := range s.AllChanges() {
			if c.Prefix == lan {
				t.Errorf("%s: the good neighbour's route has changed: %v", by, c)
			}
		}
		if s.Status(good.own).SessionState != bgp.Established || good.count() != heard {
			t.Errorf("%s: %+v, heard %d changes", by, s.Status(good.own), good.count()-heard)
		}
	}

	theirs := bgp.Settings{AS: theirAS, Router: bad.own, Neighbours: []bgp.Neighbour{{Address: us, AS: ourAS}}}
	for range 5 {
		bad.speak(theirs, prefix("0.0.0.0/0"))
		eventually(t, "it comes", func() bool { return s.Status(bad.own).SessionState == bgp.Established })
		bad.kill()
		eventually(t, "it goes", func() bool { return s.Status(bad.own).SessionState != bgp.Established })
	}
	undisturbed("a neighbour that comes and goes")
	if state := s.Inspect().Peers[0].State; !strings.Contains(state.Flapping, "5 sessions have ended in 5m0s, the last one: ") || !logged(log, "BGP neighbour flaps") {
		t.Errorf("a neighbour that comes and goes is inspected as %+v", state)
	}
	if other := s.Inspect().Peers[1].State; other.Flapping != "" {
		t.Errorf("the good neighbour flaps: %s", other.Flapping)
	}

	const flood = 10 * bgp.DefaultMaxRoutes
	before := heap()
	bad.speak(theirs)
	bad.do(order{Count: flood})
	begun := time.Now()
	most := 0
	testkit.Eventually(t, 10*patience, "too many routes close it", func() bool { // they are long in saying it
		most = max(most, s.Counts().Learned)
		return logged(log, "more routes than the limit")
	})
	closed := time.Since(begun)
	eventually(t, "its routes are gone", func() bool { return s.Counts().Learned == 1 })
	if peer := s.Inspect().Peers[0].State; peer.AdminState != "pfx_ct" || !strings.Contains(peer.LastError, "more than 20000 routes") {
		t.Errorf("inspected: %+v", peer)
	}
	if most > bgp.DefaultMaxRoutes+1 {
		t.Errorf("%d routes were in force", most)
	}
	undisturbed("a neighbour with too many routes")
	t.Logf("%d routes: closed after %s, heap %d MB before and %d MB after", flood, closed.Round(time.Millisecond), before>>20, heap()>>20)
}

// heap is the memory in use, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
