package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/test/testkit"
)

// elsewhere is a listener with connections from one machine after another.
type elsewhere struct {
	net.Listener
	machine *atomic.Pointer[net.TCPAddr]
}

func (e elsewhere) Accept() (net.Conn, error) {
	conn, err := e.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &seenFrom{conn, e.machine.Load()}, nil
}

// seenFrom is a connection with a given remote address for the server.
type seenFrom struct {
	net.Conn
	address *net.TCPAddr
}

func (s *seenFrom) RemoteAddr() net.Addr { return s.address }

// besieged is a server with clients at addresses that the test sets.
type besieged struct {
	testing.TB
	*certificates
	address    string
	handshakes *handshakes
	machine    atomic.Pointer[net.TCPAddr]
	computed   atomic.Int32 // handshakes
}

func newBesieged(t testing.TB) *besieged {
	t.Helper()
	p, l := founded(t)
	b := &besieged{TB: t, certificates: p, address: l.Addr().String(), handshakes: newHandshakes(testkit.Quiet())}
	config := p.server()
	choose := config.GetCertificate
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		b.computed.Add(1)
		return choose(hello)
	}
	serve(t, p, encrypting{Listener: elsewhere{l, &b.machine}, config: config, hasCertificate: p.hasAuthorities, handshakes: b.handshakes})
	return b
}

// greet performs a handshake, with a certificate if there is one, and returns the result of the identification.
func (b *besieged) greet(from string, own ...tls.Certificate) error {
	b.machine.Store(&net.TCPAddr{IP: net.ParseIP(from), Port: 1})
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: own}}
	answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get("https://" + b.address)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// A machine that asks for handshakes as fast as it can gets its share of them. Those beyond it wait
// or end before anything is computed, and others get theirs at once.
func TestOneMachineDoesNotTakeTheHandshakesOfOthers(t *testing.T) {
	b := newBesieged(t)
	const loud, other = "192.0.2.1", "192.0.2.2"
	began, all := time.Now(), sync.WaitGroup{}
	var refused atomic.Int32
	for range 200 { // more than are admitted at once and wait
		all.Go(func() {
			for range 2 {
				if b.greet(loud) != nil {
					refused.Add(1)
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if most := 1 + ratelimit.HandshakeBurst + int32(ratelimit.HandshakeRate*took.Seconds()); b.computed.Load() > most || b.computed.Load() < ratelimit.HandshakeBurst {
		t.Errorf("%d handshakes of one machine in %s, want %d to %d", b.computed.Load(), took, ratelimit.HandshakeBurst, most)
	}
	if refused.Load() == 0 {
		t.Error("all of them wait")
	}
	if wait, err := b.handshakes.due(netip.MustParseAddr(other), time.Now()); wait != 0 || err != nil {
		t.Errorf("another machine would wait for %s: %v", wait, err)
	}
	if err := b.greet(other); err != nil {
		t.Errorf("another machine: %v", err)
	}
	for range 3 { // one after the other: each waits for its turn
		if err := b.greet(loud); err != nil {
			t.Errorf("one that waits for each: %v", err)
		}
	}
}

// A netmaster forwards for all of its clients: addresses of authenticated netmasters have no limit.
func TestHandshakesOfNetmastersAreNotCounted(t *testing.T) {
	b := newBesieged(t)
	const master, other = "192.0.2.1", "192.0.2.2"
	own := certificate(t, b.authorities()[pki.Client], identity.Identity{Kind: identity.Master, Name: "m2"}, x509.ExtKeyUsageClientAuth, time.Now())
	if err := b.greet(master, own); err != nil {
		t.Fatal(err)
	}
	refused := map[string]bool{}
	for range 10 * ratelimit.HandshakeBurst {
		for _, source := range []string{master, other} {
			if _, err := b.handshakes.due(netip.MustParseAddr(source), time.Now()); err != nil {
				refused[source] = true
			}
		}
	}
	if refused[master] || !refused[other] {
		t.Errorf("refused: %v", refused)
	}
	b.handshakes.removed = func(name string) bool { return name == "m2" }
	for range 10 * ratelimit.HandshakeBurst {
		if _, err := b.handshakes.due(netip.MustParseAddr(master), time.Now()); err != nil {
			return
		}
	}
	t.Error("the address of a removed netmaster has no limit")
}

// The certificate of a netmaster is logged when it changes.
func TestAnotherCertificateOfANetmasterIsToldOnce(t *testing.T) {
	b := newBesieged(t)
	log, told := testkit.Recorded()
	b.handshakes.log = log
	signed := func(kind identity.Kind) tls.Certificate {
		return certificate(t, b.authorities()[pki.Client], identity.Identity{Kind: kind, Name: "m2"}, x509.ExtKeyUsageClientAuth, time.Now())
	}
	first, second := signed(identity.Master), signed(identity.Master)
	for _, own := range []tls.Certificate{first, first, signed(identity.User), second, second} {
		if err := b.greet("192.0.2.1", own); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(second.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	said := told.String()
	if strings.Count(said, "another certificate") != 1 || !strings.Contains(said, "certificate="+parsed.SerialNumber.Text(16)) || !strings.Contains(said, "who=master/m2") {
		t.Errorf("the second certificate is to be told once: %s", said)
	}
}

// An address is a machine, and a network of IPv6 is some; the machine itself has no limit.
func TestHandshakesAreOfAMachine(t *testing.T) {
	network := func(i int) string { return fmt.Sprintf("2001:db8::%x", i) }
	same := func(address string) func(int) string { return func(int) string { return address } }
	for name, c := range map[string]struct {
		first   func(i int) string
		count   int
		other   string
		limited bool
	}{
		"an address":       {same("192.0.2.1"), ratelimit.HandshakeBurst, "192.0.2.1", true},
		"another one":      {same("192.0.2.1"), ratelimit.HandshakeBurst, "192.0.2.2", false},
		"of IPv6":          {same("2001:db8::1"), ratelimit.HandshakeBurst, "2001:db8::1", true},
		"its neighbour":    {same("2001:db8::1"), ratelimit.HandshakeBurst, "2001:db8::2", false},
		"its network":      {network, ratelimit.HandshakesOfNetwork * ratelimit.HandshakeBurst, "2001:db8::ffff", true},
		"another network":  {network, ratelimit.HandshakesOfNetwork * ratelimit.HandshakeBurst, "2001:db8:0:1::1", false},
		"IPv4 within IPv6": {same("::ffff:192.0.2.1"), ratelimit.HandshakeBurst, "192.0.2.1", true},
		"loopback":         {same("127.0.0.1"), ratelimit.HandshakeBurst, "127.0.0.1", false},
	} {
		h, now := newHandshakes(testkit.Quiet()), time.Now()
		due := func(address string) time.Duration {
			t.Helper()
			wait, err := h.due(sourceOf(&from{ip: address}), now)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return wait
		}
		for i := range c.count {
			if wait := due(c.first(i)); wait > 0 {
				t.Errorf("%s: number %d waits for %s", name, i, wait)
			}
		}
		if wait := due(c.other); wait > 0 != c.limited {
			t.Errorf("%s: waits for %s, want %t", name, wait, c.limited)
		}
	}
}

// A certificate counts as another one only if the same netmaster presented a different one before: not the first
// one since the start of the process, nor another netmaster's at the same address.
func TestACertificateIsAnotherOneAfterOne(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	lines := test.NewLocal(log)
	h := newHandshakes(log.WithField("component", "daemon"))
	comes := func(name, address string, serial int64) {
		h.noteNetmaster(&from{ip: address}, identity.Identity{Kind: identity.Master, Name: name}, &x509.Certificate{SerialNumber: big.NewInt(serial)})
	}
	comes("m1", "192.0.2.1", 1)
	comes("m2", "192.0.2.1", 2)
	comes("m1", "192.0.2.1", 1)
	comes("m1", "192.0.2.9", 1)
	if said := lines.AllEntries(); len(said) > 0 {
		t.Errorf("said of what was shown first: %q", said[0].Message)
	}
	comes("m1", "192.0.2.1", 3)
	comes("m1", "192.0.2.1", 3)
	said := lines.AllEntries()
	if len(said) != 1 || said[0].Message != "a netmaster comes with another certificate" || said[0].Data["certificate"] != "3" || fmt.Sprint(said[0].Data["who"]) != "master/m1" {
		t.Errorf("said %+v, want one line of certificate 3 of m1", said)
	}
	if !h.isMaster(netip.MustParseAddr("192.0.2.9")) || h.isMaster(netip.MustParseAddr("192.0.2.2")) {
		t.Error("where netmasters have come from")
	}
}
