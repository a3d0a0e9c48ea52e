package bgp_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/secret"
)

func TestRoutesGoBothWaysWithTwoNeighboursAndNotFromOneToTheOther(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "ip", "link", "set", "lo", "up")
	a, b := newLink(t, 0), newLink(t, 1)
	// Both reach us at one address; the second link has it as well.
	us := a.near
	run(t, "ip", "address", "replace", us.String()+"/32", "dev", "lo")
	fakenode.InNamespace(t, b.netns, "ip", "route", "add", us.String(), "via", b.near.String())
	run(t, "ip", "route", "replace", b.own.String(), "dev", "to1", "src", b.near.String())

	four, six := prefix("10.1.1.5/32"), prefix("2001:db8:1::5/128")
	s, log, _ := start(t, bgp.Config{})
	settings := bgp.Settings{AS: ourAS, Router: us, NextHop6: addr("2001:db8:ffff::1"), Neighbours: []bgp.Neighbour{
		{Address: a.own, AS: theirAS, Password: "secret", HoldTime: 3 * time.Second}, {Address: b.own, AS: ourAS},
	}}
	s.Announce([]netip.Prefix{four, six}, nil)
	s.Configure(&settings)
	a.speak(bgp.Settings{AS: theirAS, Router: a.own, NextHop6: addr("fe80::a"), Neighbours: []bgp.Neighbour{{Address: us, AS: ourAS, Password: "secret"}}})
	b.speak(bgp.Settings{AS: ourAS, Router: b.own, Neighbours: []bgp.Neighbour{{Address: us, AS: ourAS}}})

	anywhere, six0, lan := prefix("0.0.0.0/0"), prefix("::/0"), prefix("198.51.100.0/24")
	a.do(order{Add: []netip.Prefix{anywhere, six0}})
	b.do(order{Add: []netip.Prefix{lan}})
	for _, r := range []*router{a, b} {
		r.hears(four, us)
		r.hears(six, settings.NextHop6)
	}
	for p, next := range map[netip.Prefix]netip.Addr{anywhere: a.own, six0: addr("fe80::a"), lan: b.own} {
		eventually(t, fmt.Sprint(p, " is learned"), func() bool { return fmt.Sprint(s.NextHops(p)) == fmt.Sprint([]netip.Addr{next}) })
	}

	s.Announce([]netip.Prefix{prefix("10.1.1.6/32")}, []netip.Prefix{four})
	a.hears(prefix("10.1.1.6/32"), us)
	b.hears(prefix("10.1.1.6/32"), us)
	a.hears(four)
	a.do(order{Remove: []netip.Prefix{anywhere}})
	eventually(t, "the default route goes", func() bool { return s.NextHops(anywhere) == nil })

	// Neighbours get our own routes only.
	b.mu.Lock()
	if len(b.has) != 3 {
		t.Errorf("told on: %v", b.has)
	}
	b.mu.Unlock()
	// The routes of a removed neighbour are removed.
	settings.Neighbours = settings.Neighbours[:1]
	s.Configure(&settings)
	eventually(t, "routes of a former neighbour go", func() bool { return s.NextHops(lan) == nil })
	b.hears(prefix("10.1.1.6/32"))
	s.Configure(nil)
	a.hears(six)
	eventually(t, "nothing is left", func() bool { return len(s.Routes()) == 0 })
	if !logged(log, "BGP neighbour is there") {
		t.Error("nothing in the log")
	}
}

// A connection that ends during the neighbour's message is reset, and then the neighbour may not read the reason:
// it would wait for us for as long as a restart may take.
func TestANeighbourThatIsSayingSomethingHearsThatOurRoutesAreGone(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "ip", "link", "set", "lo", "up")
	for _, one := range []bool{false, true} {
		t.Run(fmt.Sprintf("one of two is left %v", one), func(t *testing.T) {
			a, b := newLink(t, 0), newLink(t, 1)
			us := a.near
			fakenode.InNamespace(t, b.netns, "ip", "route", "add", us.String(), "via", b.near.String())
			run(t, "ip", "route", "replace", b.own.String(), "dev", "to1", "src", us.String())
			s, _, _ := start(t, bgp.Config{})
			theirs := []bgp.Neighbour{{Address: us, AS: ourAS}}
			a.speak(bgp.Settings{AS: theirAS, Router: a.own, Neighbours: theirs})
			b.speak(bgp.Settings{AS: theirAS, Router: b.own, Neighbours: theirs})
			ours := prefix("10.1.1.5/32")
			s.Announce([]netip.Prefix{ours}, nil)
			with := func(routers ...*router) *bgp.Settings {
				settings := &bgp.Settings{AS: ourAS, Router: us}
				for _, r := range routers {
					settings.Neighbours = append(settings.Neighbours, bgp.Neighbour{Address: r.own, AS: theirAS})
				}
				return settings
			}
			s.Configure(with(a, b))
			a.hears(ours, us)
			b.hears(ours, us)
			heard := b.count()
			a.do(order{Count: 15000})
			eventually(t, "the neighbour speaks", func() bool { return len(s.Routes()) > 0 })
			if !one {
				s.Configure(nil)
				a.hears(ours)
				b.hears(ours)
				return
			}
			s.Configure(with(b))
			a.hears(ours)
			if heard != b.count() {
				t.Error("the other neighbour heard of it")
			}
			late := prefix("10.1.1.6/32")
			s.Announce([]netip.Prefix{late}, nil)
			b.hears(late, us)
			s.Configure(with(a, b))
			a.hears(late, us)
			a.hears(ours, us)
		})
	}
}

// Each kernel drops packets with the other's signature, or without one. The reason of the missing session is shown
// to operators; the other neighbour does not notice.
func TestANeighbourWithAnotherPasswordIsToldOfAndDisturbsNobody(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "ip", "link", "set", "lo", "up")
	bad, good := newLink(t, 0), newLink(t, 1)
	us := bad.near
	run(t, "ip", "address", "replace", us.String()+"/32", "dev", "lo")
	fakenode.InNamespace(t, good.netns, "ip", "route", "add", us.String(), "via", good.near.String())
	run(t, "ip", "route", "replace", good.own.String(), "dev", "to1", "src", us.String())
	s, log, _ := start(t, bgp.Config{})
	ours, lan, wan := prefix("10.1.1.5/32"), prefix("198.51.100.0/24"), prefix("203.0.113.0/24")
	s.Announce([]netip.Prefix{ours}, nil)
	soon := func(what string, holds func() bool) { testkit.Eventually(t, 4*patience, what, holds) } // attempts are seconds apart
	speak := func(password string) {
		s.Configure(&bgp.Settings{AS: ourAS, Router: us, Neighbours: []bgp.Neighbour{
			{Address: bad.own, AS: theirAS, Password: secret.Text(password)}, {Address: good.own, AS: theirAS, Password: "secret"}}})
	}
	speak("secret")
	theirs := []bgp.Neighbour{{Address: us, AS: ourAS, Password: "secret"}}
	good.speak(bgp.Settings{AS: theirAS, Router: good.own, Neighbours: theirs}, lan)
	bad.speak(bgp.Settings{AS: theirAS, Router: bad.own, Neighbours: theirs}, wan)
	soon("both are heard", func() bool { return s.NextHops(lan) != nil && s.NextHops(wan) != nil })
	good.hears(ours, us)
	heard := good.count()
	s.AllChanges()

	for _, password := range []string{"guessed", ""} {
		log.Reset()
		speak(password)
		told := func() bool {
			state := s.Inspect().Peers[0].State
			return state.SessionState != bgp.Established && strings.HasSuffix(state.LastError, "out of reach, or has another password") &&
				logged(log, "neighbour="+bad.own.String()) && logged(log, "another password")
		}
		soon("the cause is inspected and logged", told)
		if s.NextHops(wan) != nil {
			t.Errorf("password %q: its routes are used: %v", password, s.NextHops(wan))
		}
	}
	for _, c := range s.AllChanges() {
		if c.Prefix != wan {
			t.Errorf("changed by another neighbour's password: %v", c)
		}
	}
	if s.Status(good.own).SessionState != bgp.Established || good.count() != heard {
		t.Errorf("the other neighbour: %+v, %d changes", s.Status(good.own), good.count()-heard)
	}
	speak("secret")
	soon("with the right password it is heard", func() bool { return s.NextHops(wan) != nil })
}

// Two neighbours that are equally good share the traffic.
func TestLongEqualRoutesAreUsedTogether(t *testing.T) {
	testkit.TakesLong(t)
	testkit.NeedsMachine(t)
	run(t, "ip", "link", "set", "lo", "up")
	a, b := newLink(t, 0), newLink(t, 1)
	us := a.near
	run(t, "ip", "address", "replace", us.String()+"/32", "dev", "lo")
	fakenode.InNamespace(t, b.netns, "ip", "route", "add", us.String(), "via", b.near.String())
	run(t, "ip", "route", "replace", b.own.String(), "dev", "to1", "src", us.String())
	s, _, _ := start(t, bgp.Config{})
	s.Configure(&bgp.Settings{AS: ourAS, Router: us, Neighbours: []bgp.Neighbour{{Address: a.own, AS: theirAS}, {Address: b.own, AS: theirAS}}})
	anywhere := prefix("0.0.0.0/0")
	for _, r := range []*router{a, b} {
		r.speak(bgp.Settings{AS: theirAS, Router: r.own, Neighbours: []bgp.Neighbour{{Address: us, AS: ourAS}}})
		r.do(order{Add: []netip.Prefix{anywhere}})
	}
	both := []netip.Addr{a.own, b.own}
	eventually(t, "both next hops", func() bool { return slices.Equal(s.NextHops(anywhere), both) })
	a.do(order{Remove: []netip.Prefix{anywhere}})
	eventually(t, "the other one", func() bool { return slices.Equal(s.NextHops(anywhere), both[1:]) })
	a.do(order{Add: []netip.Prefix{anywhere}})
	eventually(t, "both again", func() bool { return slices.Equal(s.NextHops(anywhere), both) })
	b.stop()
	eventually(t, "who has gone is waited for", func() bool { return s.Status(b.own).SessionState != bgp.Established })
	if now := s.NextHops(anywhere); !slices.Equal(now, both) {
		t.Errorf("meanwhile: %v", now)
	}
}

// The neighbour and we keep each other's routes while one of us restarts.
func TestARestartIsGraceful(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "ip", "link", "set", "lo", "up")
	a := newLink(t, 0)
	ours, kept, gone, added := prefix("10.1.1.5/32"), prefix("198.51.100.0/24"), prefix("203.0.113.0/24"), prefix("10.1.1.6/32")
	settings := &bgp.Settings{AS: ourAS, Router: a.near, Neighbours: []bgp.Neighbour{{Address: a.own, AS: theirAS}}}
	theirs := bgp.Settings{AS: theirAS, Router: a.own, Neighbours: []bgp.Neighbour{{Address: a.near, AS: ourAS}}}
	s, _, stop := start(t, bgp.Config{})
	s.Announce([]netip.Prefix{ours}, nil)
	s.Configure(settings)
	a.speak(theirs)
	a.do(order{Add: []netip.Prefix{kept, gone}})
	a.hears(ours, a.near)
	eventually(t, "routes", func() bool { return s.NextHops(kept) != nil && s.NextHops(gone) != nil })

	// We restart.
	before := a.count()
	stop()
	saved := s.Routes()
	if len(saved) != 2 {
		t.Fatalf("routes at the end: %v", saved)
	}
	a.do(order{Remove: []netip.Prefix{gone}})
	s, _, _ = start(t, bgp.Config{}, saved...)
	if s.NextHops(kept) == nil || s.NextHops(gone) == nil {
		t.Error("routes of the earlier run are not in force")
	}
	s.AllChanges()
	s.Announce([]netip.Prefix{ours}, nil)
	s.Configure(settings)
	eventually(t, "what was withdrawn meanwhile goes", func() bool { return s.NextHops(gone) == nil })
	eventually(t, "there again", func() bool { return s.Status(a.own).SessionState == bgp.Established })
	// The neighbour gets the updates of the restart before a new route.
	s.Announce([]netip.Prefix{added}, nil)
	a.hears(added, a.near)
	for _, c := range s.AllChanges() {
		if c.Prefix == kept {
			t.Errorf("the route that stayed has changed: %v", c)
		}
	}
	if now := a.count(); now != before+1 {
		t.Errorf("the neighbour has noticed our restart: %d changes, want one", now-before)
	}

	// The neighbour is killed and started again.
	a.kill()
	eventually(t, "it is gone", func() bool { return s.Status(a.own).SessionState != bgp.Established })
	a.speak(theirs, kept)
	eventually(t, "it is back", func() bool { return s.Status(a.own).SessionState == bgp.Established })
	a.hears(ours, a.near)
	a.do(order{Add: []netip.Prefix{gone}})
	eventually(t, "a new route", func() bool { return s.NextHops(gone) != nil })
	for _, c := range s.AllChanges() {
		if c.Prefix != gone {
			t.Errorf("we have noticed its restart: %v", c)
		}
	}
}

// An IPv6 neighbour, beside an IPv4 one, announces both families.
func TestASessionOfIPv6CarriesBothVersions(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "ip", "link", "set", "lo", "up")
	r := newLink(t, 0)
	theirs6, ours6 := r.haveIPv6()
	s, _, _ := start(t, bgp.Config{})
	four, six := prefix("10.1.1.5/32"), prefix("2001:db8:1::5/128")
	s.Announce([]netip.Prefix{four, six}, nil)
	s.Configure(&bgp.Settings{AS: ourAS, Router: r.near, Router6: ours6, NextHop6: ours6, Neighbours: []bgp.Neighbour{
		{Address: addr("192.0.2.254"), AS: theirAS}, // nobody
		{Address: theirs6, AS: theirAS, Password: "secret", HoldTime: 3 * time.Second},
	}})
	r.speak(bgp.Settings{AS: theirAS, Router: r.own, Router6: theirs6, NextHop6: theirs6,
		Neighbours: []bgp.Neighbour{{Address: ours6, AS: ourAS, Password: "secret"}}})
	r.do(order{Add: []netip.Prefix{prefix("0.0.0.0/0"), prefix("::/0")}})
	r.hears(four, r.near)
	r.hears(six, ours6)
	for p, next := range map[netip.Prefix]netip.Addr{prefix("0.0.0.0/0"): r.own, prefix("::/0"): theirs6} {
		eventually(t, fmt.Sprint(p, " is learned"), func() bool { return slices.Equal(s.NextHops(p), []netip.Addr{next}) })
	}
	if s.Status(theirs6).SessionState != bgp.Established || s.Status(addr("192.0.2.254")).SessionState == bgp.Established {
		t.Errorf("%+v, %+v", s.Status(theirs6), s.Status(addr("192.0.2.254")))
	}
}

// goes waits until routes are removed, a hold time after the last message of their neighbour, and returns how long
// that took.
func goes(t testing.TB, s *bgp.Speaker, hold time.Duration, prefixes ...netip.Prefix) time.Duration {
	t.Helper()
	const late = 5 * time.Second // as the machine is busy
	begun := time.Now()
	testkit.Eventually(t, hold+late, "the routes of a silent neighbour are gone", func() bool {
		return !slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return s.NextHops(p) != nil })
	})
	return time.Since(begun)
}

// isSilent expects that the log and the inspection report a neighbour's silence.
func isSilent(t testing.TB, s *bgp.Speaker, log *logtest.Hook, neighbour netip.Addr) {
	t.Helper()
	if !logged(log, "BGP neighbour is silent") {
		t.Error("the silence is not in the log")
	}
	if state := s.Inspect().Peers[0].State; state.SessionState == bgp.Established || state.LastError == "" {
		t.Errorf("%s is inspected as %+v", neighbour, state)
	}
}

// A stopped neighbour ends no connection. It uses graceful restart, and does not restart.
func TestTheRoutesOfASilentNeighbourGoWithinItsHoldTime(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "ip", "link", "set", "lo", "up")
	a := newLink(t, 0)
	const hold = 3 * time.Second
	lan := prefix("198.51.100.0/24")
	s, log, _ := start(t, bgp.Config{})
	s.Announce([]netip.Prefix{prefix("10.1.1.5/32")}, nil)
	s.Configure(&bgp.Settings{AS: ourAS, Router: a.near, Neighbours: []bgp.Neighbour{{Address: a.own, AS: theirAS, HoldTime: hold}}})
	a.speak(bgp.Settings{AS: theirAS, Router: a.own, Neighbours: []bgp.Neighbour{{Address: a.near, AS: ourAS}}}, lan)
	t.Cleanup(a.kill) // also while it is stopped
	eventually(t, "its route", func() bool { return s.NextHops(lan) != nil })
	if err := a.process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goes(t, s, hold, lan)
	isSilent(t, s, log, a.own)
	if err := a.process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 4*patience, "it speaks again", func() bool { return s.NextHops(lan) != nil })
}

// Neighbours do not wait for a node longer than that. A node that still forwards by its former routes, and never
// gets updates again, sends packets to next hops that may be gone.
func TestRoutesOfAnEarlierRunGoWhereNoSessionCanBegin(t *testing.T) {
	port := netip.MustParseAddrPort(testkit.FreeAddress()).Port()
	taken, err := net.Listen("tcp", netip.AddrPortFrom(addr("127.0.0.2"), port).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for name, settings := range map[string]*bgp.Settings{
		"its port is taken":        {AS: ourAS, Router: addr("127.0.0.2")},
		"its address is not there": {AS: ourAS, Router: addr("192.0.2.200")},
		"none is wanted":           nil,
	} {
		t.Run(name, func(t *testing.T) {
			lan, router := prefix("198.51.100.0/24"), addr("192.0.2.1")
			s, _, _ := start(t, bgp.Config{Port: port, RestartTime: time.Second}, bgp.Route{Prefix: lan, Neighbour: router, NextHop: router})
			if settings != nil {
				settings.Neighbours = []bgp.Neighbour{{Address: router, AS: theirAS}}
				s.Configure(settings)
			}
			if s.NextHops(lan) == nil {
				t.Error("its routes went at once")
			}
			eventually(t, "its routes go", func() bool { return s.NextHops(lan) == nil })
		})
	}
}
