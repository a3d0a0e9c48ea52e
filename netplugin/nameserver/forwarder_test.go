package nameserver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

var someone = netip.MustParseAddr("169.254.0.10")

// upstream starts a name server with a test's handler.
func upstream(t testing.TB, serve func(w dns.ResponseWriter, m *dns.Msg)) netip.AddrPort {
	t.Helper()
	packets, streams := sockets(t)
	for _, server := range []*dns.Server{{PacketConn: packets}, {Listener: streams}} {
		started, ended := make(chan struct{}), make(chan error)
		server.Handler, server.NotifyStartedFunc = dns.HandlerFunc(serve), func() { close(started) }
		go func() { ended <- server.ActivateAndServe() }()
		<-started
		t.Cleanup(func() {
			if err := errors.Join(server.Shutdown(), <-ended); err != nil {
				t.Error(err)
			}
		})
	}
	return netip.MustParseAddrPort(packets.LocalAddr().String())
}

// tell answers a question with records in text.
func tell(w dns.ResponseWriter, m *dns.Msg, rcode int, records ...string) {
	reply := new(dns.Msg).SetRcode(m, rcode)
	for _, text := range records {
		r, err := dns.NewRR(text)
		if err != nil {
			panic(err)
		}
		if r.Header().Rrtype == dns.TypeSOA {
			reply.Ns = append(reply.Ns, r)
		} else {
			reply.Answer = append(reply.Answer, r)
		}
	}
	_ = w.WriteMsg(reply) // the client may have gone
}

func of(name string) dns.Question {
	return dns.Question{Name: name, Qtype: dns.TypeA, Qclass: dns.ClassINET}
}

// askWhole asks for blue, as by a connection.
func askWhole(t *testing.T, f *Forwarder, asker netip.Addr, q dns.Question) (answer, error) {
	a, find, err := f.ask("blue", asker, q, false)
	if find == nil {
		return a, err
	}
	return find(t.Context())
}

// told returns an answer in text.
func told(a answer, err error) string {
	if err != nil {
		return err.Error()
	}
	text := dns.RcodeToString[a.rcode]
	for _, r := range append(a.answer, a.authority...) {
		text += " " + strings.Join(strings.Fields(r.String()), " ")
	}
	return text
}

func TestOthersAreAskedOnceForWhatTheySayForAWhile(t *testing.T) {
	var asked atomic.Int32
	server := upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		asked.Add(1)
		if name := m.Question[0].Name; strings.HasPrefix(name, "no.") {
			tell(w, m, dns.RcodeNameError, "example.org. 900 IN SOA ns.example.org. x.example.org. 1 2 3 4 60")
		} else {
			tell(w, m, dns.RcodeSuccess, name+" 100 IN CNAME web.example.org.", "web.example.org. 50 IN A 192.0.2.1",
				"bank.example.com. 5000 IN A 192.0.2.66", "web.example.org. 50 IN TXT lies")
		}
	})
	f := NewForwarder(Fixed(server))
	now := time.Now()
	f.cache.now = func() time.Time { return now }
	for _, step := range []struct {
		later time.Duration
		name  string
		want  string
		asked int32
	}{
		{0, "www.example.org.", "NOERROR www.example.org. 100 IN CNAME web.example.org. web.example.org. 50 IN A 192.0.2.1", 1},
		{20 * time.Second, "WWW.example.org.", "NOERROR www.example.org. 80 IN CNAME web.example.org. web.example.org. 30 IN A 192.0.2.1", 1},
		{31 * time.Second, "www.example.org.", "NOERROR www.example.org. 100 IN CNAME web.example.org. web.example.org. 50 IN A 192.0.2.1", 2},
		{0, "no.example.org.", "NXDOMAIN example.org. 900 IN SOA ns.example.org. x.example.org. 1 2 3 4 60", 3},
		{59 * time.Second, "no.example.org.", "NXDOMAIN example.org. 841 IN SOA ns.example.org. x.example.org. 1 2 3 4 60", 3},
		{time.Second, "no.example.org.", "NXDOMAIN example.org. 900 IN SOA ns.example.org. x.example.org. 1 2 3 4 60", 4},
	} {
		now = now.Add(step.later)
		if got := told(askWhole(t, f, someone, of(step.name))); got != step.want || asked.Load() != step.asked {
			t.Errorf("%s: %s after %d questions, want %s after %d", step.name, got, asked.Load(), step.want, step.asked)
		}
	}
}

func TestWhoDoesNotAnswerOrLiesIsPassedOver(t *testing.T) {
	t.Parallel()
	good := upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.1")
	})
	bad := map[string]netip.AddrPort{
		"nobody is there": netip.MustParseAddrPort("127.0.0.1:1"),
		"refuses":         upstream(t, func(w dns.ResponseWriter, m *dns.Msg) { tell(w, m, dns.RcodeRefused) }),
		"is silent":       upstream(t, func(dns.ResponseWriter, *dns.Msg) {}),
		"another question": upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
			m.Question[0].Name = "other.example.org."
			tell(w, m, dns.RcodeSuccess, "other.example.org. 60 IN A 192.0.2.66")
		}),
		"another class": upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
			m.Question[0].Qclass = dns.ClassCHAOS
			tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.66")
		}),
		"two questions": upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
			reply := new(dns.Msg).SetReply(m)
			reply.Question = append(reply.Question, of("other.example.org."))
			_ = w.WriteMsg(reply)
		}),
		"a question": upstream(t, func(w dns.ResponseWriter, m *dns.Msg) { _ = w.WriteMsg(m) }),
		"an answer to an update": upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
			m.Opcode = dns.OpcodeUpdate
			tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.66")
		}),
		"another id": upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
			m.Id++
			tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.66")
		}),
		"cut off everywhere": upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
			reply := new(dns.Msg).SetReply(m)
			reply.Truncated = true
			_ = w.WriteMsg(reply)
		}),
		"garbage": upstream(t, func(w dns.ResponseWriter, _ *dns.Msg) { _, _ = w.Write([]byte("garbage")) }),
	}
	for name, server := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := NewForwarder(Fixed(server, good))
			f.patience = 4 * time.Second
			if got := told(askWhole(t, f, someone, of("example.org."))); got != "NOERROR example.org. 60 IN A 192.0.2.1" {
				t.Error(got)
			}
			f = NewForwarder(Fixed(server))
			if got := told(askWhole(t, f, someone, of("example.org."))); !strings.Contains(got, server.String()) {
				t.Error(got)
			}
			if state := (&Node{servers: []*Server{{Forwarder: f}}}).State(); !strings.Contains(state.Problem, server.String()) || state.Listening {
				t.Errorf("%+v", state)
			}
		})
	}
}

// Servers follow chains of eleven aliases, and chains of that length are accepted.
func TestALongChainOfAliasesIsFollowed(t *testing.T) {
	var chain []string
	for i := range 12 {
		chain = append(chain, fmt.Sprintf("a%d.example.org. 60 IN CNAME a%d.example.org.", i, i+1))
	}
	chain = append(chain, "a12.example.org. 60 IN A 192.0.2.1")
	f := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) { tell(w, m, dns.RcodeSuccess, chain...) })))
	if got := told(askWhole(t, f, someone, of("a0.example.org."))); !strings.HasSuffix(got, " a12.example.org. 60 IN A 192.0.2.1") {
		t.Error(got)
	}
}

func TestAnAnswerThatDoesNotFitIsAskedForOverTCP(t *testing.T) {
	f := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		if _, tcp := w.RemoteAddr().(*net.TCPAddr); tcp {
			tell(w, m, dns.RcodeSuccess, "example.org. 60 IN A 192.0.2.1")
			return
		}
		reply := new(dns.Msg).SetReply(m)
		reply.Truncated = true
		_ = w.WriteMsg(reply)
	})))
	f.patience = time.Minute
	if got := told(askWhole(t, f, someone, of("example.org."))); got != "NOERROR example.org. 60 IN A 192.0.2.1" {
		t.Error(got)
	}
}

// Many clients that ask for one name cause one question; a client that asks for many names does not keep others
// out.
func TestQuestionsUnderWayAreLimitedPerAskerAndSharedByAll(t *testing.T) {
	release, asked := make(chan struct{}), atomic.Int32{}
	f := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		asked.Add(1)
		<-release
		tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.1")
	})))
	f.patience = time.Minute
	results := make(chan string)
	ask := func(asker byte, name string) {
		go func() {
			results <- told(askWhole(t, f, netip.AddrFrom4([4]byte{169, 254, 0, asker}), of(name)))
		}()
	}
	for i := range maxAskedBy + 5 {
		ask(1, fmt.Sprintf("n%d.example.org.", i))
	}
	for range 5 {
		if got := <-results; !strings.Contains(got, "waits for 32 answers") {
			t.Error(got)
		}
	}
	for asker := range byte(20) {
		ask(100+asker, "same.example.org.")
	}
	waiting := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.waiting)
	}
	testkit.Eventually(t, time.Minute, "all wait", func() bool { return waiting() == 21 && asked.Load() == maxAskedBy+1 })
	close(release)
	for range maxAskedBy + 20 {
		if got := <-results; !strings.HasSuffix(got, "IN A 192.0.2.1") {
			t.Error(got)
		}
	}
	if asked.Load() != maxAskedBy+1 {
		t.Errorf("%d questions, want %d and one", asked.Load(), maxAskedBy)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting)+len(f.underWay)+len(f.begun) != 0 {
		t.Errorf("left: %v %v %v", f.waiting, f.underWay, f.begun)
	}
}

// However many endpoints a tenant has, others' questions get through.
func TestATenantLeavesRoomForOthers(t *testing.T) {
	f, pods := NewForwarder(Fixed()), byte(0)
	begin := func(tenant string) (begun []*asked) {
		pods++
		for i := range 2 * maxAsked {
			asker := netip.AddrFrom4([4]byte{169, 254, pods, byte(i / maxAskedBy)})
			a, _, err := f.begin(tenant, asker, of(fmt.Sprint(tenant, i)))
			if fault.Is(err, fault.Exhausted) {
				return begun
			} else if err != nil {
				t.Fatal(err)
			}
			begun = append(begun, a)
		}
		t.Fatalf("%s has %d questions under way", tenant, len(begun))
		return nil
	}
	blue := begin("blue")
	if len(blue) != maxAsked/2 {
		t.Errorf("alone, a tenant has %d questions under way", len(blue))
	}
	if red := begin("red"); len(red) < maxAsked/4 {
		t.Errorf("beside another one, a tenant has %d", len(red))
	}
	if green := begin("green"); len(green) < maxAsked/8 {
		t.Errorf("beside two, a tenant has %d", len(green))
	}
	for i, a := range blue {
		f.end(of(fmt.Sprint("blue", i)), a)
	}
	if blue = begin("blue"); len(blue) < maxAsked/4 {
		t.Errorf("after all of its questions have ended, a tenant has %d", len(blue))
	}
}

// An upstream that asks this server ends the loop when its time is over.
func TestALoopEndsAndDoesNotMultiply(t *testing.T) {
	t.Parallel()
	var back atomic.Pointer[string]
	var asked atomic.Int32
	var loops sync.WaitGroup // each has an answer while the server still answers
	loop := upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		loops.Add(1)
		defer loops.Done()
		asked.Add(1)
		client := dns.Client{Timeout: time.Minute}
		if reply, _, err := client.Exchange(question(m.Question[0].Name, dns.TypeA), *back.Load()); err == nil {
			tell(w, m, reply.Rcode)
		}
	})
	f := NewForwarder(Fixed(loop))
	f.patience = 5 * time.Second
	_, server := start(t, exampleZones(t), f, inBlue)
	back.Store(&server)
	began := time.Now()
	reply := exchangeWith(t, "udp", server, question("example.org.", dns.TypeA))
	if took := time.Since(began); reply.Rcode != dns.RcodeServerFailure || asked.Load() != 1 || took > 2*f.patience {
		t.Errorf("%s after %s and %d questions", reply, took, asked.Load())
	}
	loops.Wait()
}

// Two name servers ask each other. The second lists the first three times, and has one of them left when the first
// gives up.
func TestALoopOfTwoNameServersDoesNotBeginAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	var first, second atomic.Pointer[netip.AddrPort]
	silent := upstream(t, func(dns.ResponseWriter, *dns.Msg) { asked.Add(1) })
	serve := func(at *atomic.Pointer[netip.AddrPort], f *Forwarder) string {
		_, server := start(t, exampleZones(t), f, inBlue)
		a := netip.MustParseAddrPort(server)
		at.Store(&a)
		return server
	}
	back := NewForwarder(func() []netip.AddrPort { return slices.Repeat([]netip.AddrPort{*first.Load()}, 3) })
	serve(&second, back)
	server := serve(&first, NewForwarder(func() []netip.AddrPort { return []netip.AddrPort{silent, *second.Load()} }))
	if reply := exchangeWith(t, "udp", server, question("example.org.", dns.TypeA)); reply.Rcode != dns.RcodeServerFailure {
		t.Error(reply)
	}
	testkit.Eventually(t, time.Minute, "the second gives up, too", func() bool {
		back.mu.Lock()
		defer back.mu.Unlock()
		return len(back.underWay) == 0
	})
	if asked.Load() != 1 {
		t.Errorf("the question was asked %d times", asked.Load())
	}
}
