package bgp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// asNeighbour makes the test binary a neighbour: a speaker in a namespace of its
// own, with the orders on its standard input. The library has variables of the
// process, so two speakers need two processes.
const asNeighbour = "CONTIV_TEST_BGP_NEIGHBOUR"

func TestMain(m *testing.M) {
	if os.Getenv(asNeighbour) != "" {
		os.Exit(beNeighbour())
	}
	os.Exit(fakenode.Isolate(m))
}

// order is what a neighbour is told to do.
type order struct {
	Settings *bgp.Settings
	Add      []netip.Prefix
	Remove   []netip.Prefix
	Count    int // so many prefixes more, of 100.64.0.0/10
}

// beNeighbour does what it is told until its input ends, and prints the changes.
func beNeighbour() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := logrus.New()
	log.SetOutput(os.Stderr)
	s := bgp.New(bgp.Config{Log: logrus.NewEntry(log)})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	go func() {
		out := json.NewEncoder(os.Stdout)
		for range s.News() {
			for _, c := range s.Changes() {
				_ = out.Encode(c)
			}
		}
	}()
	for in := json.NewDecoder(os.Stdin); ; {
		var o order
		if in.Decode(&o) != nil {
			cancel()
			<-ended
			return 0
		}
		for i := range o.Count {
			o.Add = append(o.Add, netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64 + byte(i>>16), byte(i >> 8), byte(i)}), 32))
		}
		s.Announce(o.Add, o.Remove)
		if o.Settings != nil {
			s.Configure(o.Settings)
		}
	}
}

// router is a neighbour on a link of its own.
type router struct {
	t       testing.TB
	netns   string
	own     netip.Addr // its address on the link
	near    netip.Addr // ours
	process *exec.Cmd
	input   io.WriteCloser

	mu      sync.Mutex
	has     map[netip.Prefix][]netip.Addr // what it has learned
	changes int                           // how often that has changed
}

// newLink makes a namespace with a link to ours; number tells links apart.
func newLink(t testing.TB, number int) *router {
	t.Helper()
	r := &router{
		t: t, netns: fakenode.NewNamespace(t), has: map[netip.Prefix][]netip.Addr{},
		near: netip.AddrFrom4([4]byte{192, 0, 2, byte(4*number + 1)}), own: netip.AddrFrom4([4]byte{192, 0, 2, byte(4*number + 2)}),
	}
	link := fmt.Sprint("to", number)
	run(t, "ip", "link", "add", link, "type", "veth", "peer", "name", "up0", "netns", r.netns)
	t.Cleanup(func() { run(t, "ip", "link", "del", link) })
	run(t, "ip", "address", "add", r.near.String()+"/30", "dev", link)
	run(t, "ip", "link", "set", link, "up")
	fakenode.InNamespace(t, r.netns, "ip", "address", "add", r.own.String()+"/30", "dev", "up0")
	fakenode.InNamespace(t, r.netns, "ip", "link", "set", "up0", "up")
	return r
}

// speak begins to be a BGP speaker, which has routes when it meets its neighbours.
func (r *router) speak(settings bgp.Settings, routes ...netip.Prefix) {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command("nsenter", "--net="+r.netns, self)
	cmd.Env = append(os.Environ(), asNeighbour+"=1")
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.process, r.input = cmd, input
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			var c bgp.Change
			if json.Unmarshal(lines.Bytes(), &c) == nil {
				r.mu.Lock()
				r.has[c.Prefix] = c.NextHops
				r.changes++
				r.mu.Unlock()
			}
		}
	}()
	r.t.Cleanup(func() { r.stop() })
	r.do(order{Add: routes, Settings: &settings})
}

func (r *router) do(o order) {
	r.t.Helper()
	if err := json.NewEncoder(r.input).Encode(o); err != nil {
		r.t.Fatal(err)
	}
}

// stop ends the speaker as an operator would, kill as a crash.
func (r *router) stop() {
	_ = r.input.Close()
	_ = r.process.Wait()
}

func (r *router) kill() {
	_ = r.process.Process.Kill()
	_ = r.process.Wait()
}

// hears waits until the neighbour has learned just these next hops of a prefix.
func (r *router) hears(p netip.Prefix, next ...netip.Addr) {
	r.t.Helper()
	eventually(r.t, fmt.Sprint(r.own, " has heard ", p, next), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Equal(r.has[p], next)
	})
}

// count is how often what it has learned has changed.
func (r *router) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}

// patience is how long anything may take on a busy machine.
const patience = 30 * time.Second

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// start runs a speaker until stop.
func start(t testing.TB, cfg bgp.Config, recalled ...bgp.Route) (s *bgp.Speaker, log *logtest.Hook, stop func()) {
	t.Helper()
	logger, hook := logtest.NewNullLogger()
	cfg.Log = logrus.NewEntry(logger)
	s = bgp.New(cfg)
	s.Recall(recalled)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	done := false
	stop = func() {
		if !done {
			done = true
			cancel()
			<-ended
		}
	}
	t.Cleanup(stop)
	return s, hook, stop
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	testkit.Eventually(t, patience, what, holds)
}

func logged(hook *logtest.Hook, text string) bool {
	for _, e := range hook.AllEntries() {
		if line, err := e.String(); err == nil && strings.Contains(line, text) {
			return true
		}
	}
	return false
}

func addr(text string) netip.Addr     { return netip.MustParseAddr(text) }
func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

const ourAS, theirAS = 65001, 65100

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

	// What a neighbour is told is ours alone.
	b.mu.Lock()
	if len(b.has) != 3 {
		t.Errorf("told on: %v", b.has)
	}
	b.mu.Unlock()
	// A neighbour that is not wanted takes its routes along.
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
	s.Changes()
	s.Announce([]netip.Prefix{ours}, nil)
	s.Configure(settings)
	eventually(t, "what was withdrawn meanwhile goes", func() bool { return s.NextHops(gone) == nil })
	eventually(t, "there again", func() bool { return s.Status(a.own).SessionState == bgp.Established })
	// What the neighbour hears of the restart it hears before a route that is new.
	s.Announce([]netip.Prefix{added}, nil)
	a.hears(added, a.near)
	for _, c := range s.Changes() {
		if c.Prefix == kept {
			t.Errorf("the route that stayed has changed: %v", c)
		}
	}
	if now := a.count(); now != before+1 {
		t.Errorf("the neighbour has noticed our restart: %d changes, want one", now-before)
	}

	// The neighbour is killed and comes back.
	a.kill()
	eventually(t, "it is gone", func() bool { return s.Status(a.own).SessionState != bgp.Established })
	a.speak(theirs, kept)
	eventually(t, "it is back", func() bool { return s.Status(a.own).SessionState == bgp.Established })
	a.hears(ours, a.near)
	a.do(order{Add: []netip.Prefix{gone}})
	eventually(t, "a new route", func() bool { return s.NextHops(gone) != nil })
	for _, c := range s.Changes() {
		if c.Prefix != gone {
			t.Errorf("we have noticed its restart: %v", c)
		}
	}
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
