package nameserver

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/netspace"
)

// room is a network namespace of a test's own, which may be replaced by another one.
type room struct {
	mu   sync.Mutex
	name string // of the network namespace
	gone chan struct{}
}

func (r *room) AwaitNames(context.Context) (func(func() error) error, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := r.name
	return func(work func() error) error { return netspace.Do(name, work) }, r.gone, nil
}

func (r *room) AskerAt(netip.Addr) (string, bool) { return "web.blue-c1", true }

func newRoom(t *testing.T, name string) string {
	t.Helper()
	ns, made, err := netspace.Open(name)
	if err != nil || !made {
		t.Fatal(made, err)
	}
	if err := ns.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netspace.Delete(name); err != nil {
			t.Error(err)
		}
	})
	return name
}

func TestTheServerIsWhereItsPlaceIs(t *testing.T) {
	first, second := newRoom(t, t.Name()+"-1"), newRoom(t, t.Name()+"-2")
	place := &room{name: first, gone: make(chan struct{})}
	ready := make(chan struct{})
	s := newServer(exampleZones(t), nil, place, func(ctx context.Context) error {
		select {
		case <-ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	s.Log = testkit.Quiet()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.keep(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	ask := func(room string, wait time.Duration) (reply *dns.Msg, err error) {
		return reply, errors.Join(netspace.Do(room, func() error {
			client := dns.Client{Timeout: wait}
			reply, _, err = client.Exchange(question("web1.", dns.TypeA), "127.0.0.1:53")
			return err
		}))
	}
	answers := func(room string) bool {
		reply, err := ask(room, time.Second)
		return err == nil && len(reply.Answer) == 1
	}
	for _, room := range []string{first, second} {
		setUpLoopback(t, room)
	}

	// A question that arrives too early waits; it is not answered with NXDOMAIN.
	testkit.Eventually(t, 10*time.Second, "somebody listens", func() bool {
		_, err := ask(first, 50*time.Millisecond)
		return err != nil && strings.Contains(err.Error(), "timeout")
	})
	early := askEarly(t, first)
	close(ready)
	if reply, err := early.ReadMsg(); err != nil || len(reply.Answer) != 1 {
		t.Errorf("a question that came before all was ready: %v, %v", reply, err)
	}

	place.mu.Lock()
	place.name = second
	gone := place.gone
	place.gone = make(chan struct{})
	place.mu.Unlock()
	close(gone)
	testkit.Eventually(t, 10*time.Second, "it answers in the other place", func() bool { return answers(second) })
	if state := (&Node{servers: []*Server{s}}).State(); !state.On || !state.Listening {
		t.Errorf("%+v", state)
	}
	if answers(first) {
		t.Error("it still answers in the first place")
	}
}

// askEarly sends a question. On the loopback it waits at the server when this returns.
func askEarly(t *testing.T, room string) *dns.Conn {
	t.Helper()
	var conn *dns.Conn
	if err := netspace.Do(room, func() (err error) {
		conn, err = dns.Dial("udp", "127.0.0.1:53")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(conn.WriteMsg(question("web1.", dns.TypeA)), conn.SetReadDeadline(time.Now().Add(20*time.Second))); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestUpstreamIsWhatTheFileSaysAtTheTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	now := time.Now()
	servers := FromFile(path, func() time.Time { return now })
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		now = now.Add(lookAgain)
		if err := os.Chtimes(path, now, now); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want ...netip.AddrPort) {
		t.Helper()
		if got := servers(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	a, b := netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("[2001:db8::1]:53")
	expect("without a file")
	write("search example.org\nnameserver 192.0.2.1\nnameserver nonsense\n")
	expect("one server", a)
	write("nameserver 2001:db8::1\nnameserver 192.0.2.1\n")
	expect("two servers", b, a)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(lookAgain)
	expect("the file is gone", b, a)
}

func TestAServerIsAnAddressWithOrWithoutAPort(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1:53", "192.0.2.1:5353": "192.0.2.1:5353", "2001:db8::1": "[2001:db8::1]:53", "[2001:db8::1]:54": "[2001:db8::1]:54",
		"": "", "example.org": "", "192.0.2.1:0": "", "192.0.2.1:70000": "",
	} {
		got, err := ParseServer(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %s, %v, want %q", text, got, err, want)
		}
	}
}

func setUpLoopback(t *testing.T, room string) {
	t.Helper()
	if err := netspace.Do(room, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	}); err != nil {
		t.Fatal(err)
	}
}
