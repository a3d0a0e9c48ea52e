package bgp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

// order is a command for a neighbour.
type order struct {
	Settings *bgp.Settings
	Add      []netip.Prefix
	Remove   []netip.Prefix
	Count    int // so many prefixes more, of 100.64.0.0/10
}

// beNeighbour carries out orders until its input ends, and prints the changes.
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
			for _, c := range s.AllChanges() {
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
	link    string     // our end
	own     netip.Addr // its address on the link
	near    netip.Addr // ours
	process *exec.Cmd
	input   io.WriteCloser

	mu      sync.Mutex
	has     map[netip.Prefix][]netip.Addr // learned
	changes int                           // how often that has changed
}

// newLink makes a namespace with a link to ours; number distinguishes links. It is made before our speaker, so
// that the speaker ends first at the end of the test: when a neighbour ends before all its routes have been
// processed, the library marks them while its watcher reads them (osrg/gobgp#2705).
func newLink(t testing.TB, number int) *router {
	t.Helper()
	link := fmt.Sprint("to", number)
	r := &router{
		t: t, netns: fakenode.NewNamespace(t), link: link, has: map[netip.Prefix][]netip.Addr{},
		near: netip.AddrFrom4([4]byte{192, 0, 2, byte(4*number + 1)}), own: netip.AddrFrom4([4]byte{192, 0, 2, byte(4*number + 2)}),
	}
	run(t, "ip", "link", "add", link, "type", "veth", "peer", "name", "up0", "netns", r.netns)
	t.Cleanup(func() { run(t, "ip", "link", "del", link) })
	run(t, "ip", "address", "add", r.near.String()+"/30", "dev", link)
	run(t, "ip", "link", "set", link, "up")
	fakenode.InNamespace(t, r.netns, "ip", "address", "add", r.own.String()+"/30", "dev", "up0")
	fakenode.InNamespace(t, r.netns, "ip", "link", "set", "up0", "up")
	t.Cleanup(func() {
		if r.process != nil {
			r.stop()
		}
	})
	return r
}

// haveIPv6 gives both ends of the link IPv6 addresses.
func (r *router) haveIPv6() (own, near netip.Addr) {
	r.t.Helper()
	own, near = addr("2001:db8::2"), addr("2001:db8::1")
	run(r.t, "ip", "address", "add", near.String()+"/64", "dev", r.link, "nodad")
	fakenode.InNamespace(r.t, r.netns, "ip", "address", "add", own.String()+"/64", "dev", "up0", "nodad")
	return own, near
}

// speak starts a BGP speaker, which has routes when it meets its neighbours. It waits for them to connect, as
// routers do that have a range of neighbours: when both connect at once, the library (v4.8.0) reads from one
// connection what it writes because of the other.
func (r *router) speak(settings bgp.Settings, routes ...netip.Prefix) {
	r.t.Helper()
	fakenode.InNamespace(r.t, r.netns, "nft", "add table inet waits; add chain inet waits out { type filter hook output priority 0; }; add rule inet waits out tcp dport 179 drop")
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

// hears waits until the neighbour has learned exactly these next hops of a prefix.
func (r *router) hears(p netip.Prefix, next ...netip.Addr) {
	r.t.Helper()
	eventually(r.t, fmt.Sprint(r.own, " has heard ", p, next), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Equal(r.has[p], next)
	})
}

// count returns how often the learned routes have changed.
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
	if recalled != nil {
		s.Recall(recalled)
	}
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
	t.Cleanup(func() {
		if t.Failed() {
			sayWhy(t, s, hook)
		}
	})
	return s, hook, stop
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	testkit.Eventually(t, patience, what, holds)
}

// sayWhy logs the sessions of a speaker when a test has failed.
func sayWhy(t testing.TB, s *bgp.Speaker, hook *logtest.Hook) {
	if view := s.Inspect(); view != nil { // nil: it has no neighbours
		for _, p := range view.Peers {
			t.Logf("neighbour %+v", p)
		}
	}
	for _, e := range hook.AllEntries() {
		if line, err := e.String(); err == nil {
			t.Log(strings.TrimSpace(line))
		}
	}
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
