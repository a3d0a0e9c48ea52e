package nameserver

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/test/testkit"
)

// byThirdByte returns the tenant by the third byte of a client's address: 127.0.1.x is of blue, 127.0.2.x of red.
func byThirdByte(a netip.Addr) (string, bool) {
	return map[byte]string{1: "blue", 2: "red"}[a.As4()[2]], true
}

// client asks from an address of this machine.
func client(network string, from netip.Addr) dns.Client {
	local := net.Addr(&net.UDPAddr{IP: from.AsSlice()})
	if network == "tcp" {
		local = &net.TCPAddr{IP: from.AsSlice()}
	}
	return dns.Client{Net: network, Timeout: time.Minute, Dialer: &net.Dialer{LocalAddr: local, Timeout: time.Minute}}
}

// While a name server leaves some names unanswered, of which one tenant asks as many as it may, the names of
// tenants are answered, and so are other tenants' questions about other names. Questions beyond a limit fail at
// once, and do not reach the name server.
func TestSlowNamesCostOthersNothing(t *testing.T) {
	release, slow := make(chan struct{}), atomic.Int32{}
	f := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		if strings.HasSuffix(m.Question[0].Name, ".slow.example.") {
			slow.Add(1)
			<-release
		}
		tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.1")
	})))
	f.patience = time.Minute
	_, server := start(t, exampleZones(t), f, byThirdByte)
	from := func(tenant, asker byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, tenant, asker}) }
	asks := func(network string, from netip.Addr, name string) string {
		by := client(network, from)
		reply, _, err := by.Exchange(question(name, dns.TypeA), server)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(dns.RcodeToString[reply.Rcode], " ", len(reply.Answer))
	}

	const ofTenant = maxAsked / 2
	var asking sync.WaitGroup
	for i := range ofTenant {
		asking.Go(func() {
			if got := asks("udp", from(1, byte(1+i/maxAskedBy)), fmt.Sprintf("n%d.slow.example.", i)); got != "NOERROR 1" {
				t.Errorf("slow name %d: %s", i, got)
			}
		})
	}
	t.Cleanup(asking.Wait)
	goOn := sync.OnceFunc(func() { close(release) })
	t.Cleanup(goOn)
	testkit.Eventually(t, 50*time.Second, "all slow names are asked for", func() bool { return slow.Load() == ofTenant })

	const another = 1 + ofTenant/maxAskedBy // asker of blue
	for _, c := range []struct {
		asker      netip.Addr
		name, want string
	}{
		{from(1, 1), "front.", "NOERROR 2"},
		{from(1, another), "web1.blue.contiv.internal.", "NOERROR 1"},
		{from(2, 1), "front.", "NOERROR 1"},
		{from(2, 1), "1.slow.red.contiv.internal.", "NXDOMAIN 0"},
		{from(2, 1), "fast.example.", "NOERROR 1"},
		{from(1, another), "fast.example.", "NOERROR 1"},       // what is known already
		{from(1, 1), "more.slow.example.", "SERVFAIL 0"},       // beyond what he may wait for
		{from(1, another), "more.slow.example.", "SERVFAIL 0"}, // beyond what the tenant may ask
	} {
		for _, network := range []string{"udp", "tcp"} {
			if got := asks(network, c.asker, c.name); got != c.want {
				t.Errorf("%s asks by %s for %s: %s, want %s", c.asker, network, c.name, got, c.want)
			}
		}
	}
	if n := slow.Load(); n != ofTenant {
		t.Errorf("%d slow names were asked for, want %d", n, ofTenant)
	}
	goOn()
	asking.Wait()
	if got := asks("udp", from(1, 1), "more.slow.example."); got != "NOERROR 1" {
		t.Errorf("after all: %s", got)
	}
}

// slowPatience is long enough to receive an answer after a tenth of it, even on a busy machine.
const slowPatience = 10 * time.Second

// slowServer forwards all questions to one name server, which answers after a while.
type slowServer struct {
	after    time.Duration
	network  string
	asked    atomic.Int32
	upstream netip.AddrPort
	*Server  // ours
	address  string
	ended    chan struct{}
}

func startSlow(t *testing.T, after time.Duration, network string) *slowServer {
	t.Helper()
	s := &slowServer{after: after, network: network, ended: make(chan struct{})}
	s.upstream = upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		s.asked.Add(1)
		select {
		case <-time.After(after):
			tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.1")
		case <-s.ended:
		}
	})
	t.Cleanup(func() { close(s.ended) })
	f, now := NewForwarder(Fixed(s.upstream)), time.Now()
	f.patience = slowPatience
	f.cache.now = func() time.Time { return now } // failures stay cached
	s.Server, s.address = start(t, exampleZones(t), f, inBlue)
	return s
}

// The time is the same however late the answer would come. The state names the name server and its fault, and the
// same question is not sent to it again at once.
func TestASlowNameServerIsAFailureAfterItsTime(t *testing.T) {
	t.Parallel()
	var asking sync.WaitGroup
	for _, after := range []time.Duration{slowPatience / 10, 2 * slowPatience, time.Hour} {
		for _, network := range []string{"udp", "tcp"} {
			s := startSlow(t, after, network)
			asking.Go(func() { s.expectItsTime(t) })
		}
	}
	asking.Wait()
}

func (s *slowServer) expectItsTime(t *testing.T) {
	began := time.Now()
	reply, again, err := s.asksTwice()
	took := time.Since(began)
	state := (&Node{servers: []*Server{s.Server}}).State()
	want, problem := dns.RcodeServerFailure, strings.Contains(state.Problem, s.upstream.String()) && strings.Contains(state.Problem, "timeout")
	if s.after < slowPatience {
		want, problem = dns.RcodeSuccess, state.Problem == ""
	}
	if err != nil || reply != want || again != want || s.asked.Load() != 1 || !problem {
		t.Errorf("%s, answers after %s: %d, %d, %v after %d questions, problem %q", s.network, s.after, reply, again, err, s.asked.Load(), state.Problem)
	}
	if took < min(s.after, slowPatience) || took > 2*slowPatience {
		t.Errorf("%s, answers after %s: took %s", s.network, s.after, took)
	}
}

// asksTwice returns the codes of the answers to a question and its repetition.
func (s *slowServer) asksTwice() (first, again int, err error) {
	client := dns.Client{Net: s.network, Timeout: time.Minute}
	for _, code := range []*int{&first, &again} {
		reply, _, err := client.Exchange(question("example.org.", dns.TypeA), s.address)
		if err != nil {
			return first, again, err
		}
		*code = reply.Rcode
	}
	return first, again, nil
}
