package nameserver

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/test/testkit"
)

// An alias has its own TTL, which is not that of its target's missing records (RFC 2308).
func TestWhatIsDeniedBehindAnAliasIsKeptAsLongAsItsAuthoritySays(t *testing.T) {
	const alias, loose, soa = "app.example.org. 3600 IN CNAME new.example.org.", "app.example.org. 7 IN CNAME new.example.org.", "example.org. 900 IN SOA ns.example.org. x.example.org. 1 2 3 4 "
	const address = "new.example.org. 60 IN A 192.0.2.1"
	for _, c := range []struct {
		what    string
		kind    uint16
		rcode   int
		records []string
		keeps   time.Duration
	}{
		{"no such name", dns.TypeA, dns.RcodeNameError, []string{alias, soa + "5"}, 5 * time.Second},
		{"no such record", dns.TypeAAAA, dns.RcodeSuccess, []string{alias, soa + "5"}, 5 * time.Second},
		{"for longer than the alias is good", dns.TypeA, dns.RcodeNameError, []string{loose, soa + "30"}, 7 * time.Second},
		{"for very long", dns.TypeAAAA, dns.RcodeSuccess, []string{alias, strings.Replace(soa, "900", "7200", 1) + "7200"}, longestGone},
		{"by several", dns.TypeA, dns.RcodeNameError, []string{alias, soa + "30", soa + "5"}, 5 * time.Second},
		{"no such name, for no time", dns.TypeA, dns.RcodeNameError, []string{alias}, 0},
		{"no such record, for no time", dns.TypeAAAA, dns.RcodeSuccess, []string{alias}, 0},
		{"no such name, that has one", dns.TypeA, dns.RcodeNameError, []string{alias, address}, 0},
		{"another record", dns.TypeTXT, dns.RcodeSuccess, []string{alias, address}, 0},
		{"there is one", dns.TypeA, dns.RcodeSuccess, []string{alias, address}, time.Minute},
		{"the alias itself", dns.TypeCNAME, dns.RcodeSuccess, []string{alias}, longestKept},
		{"all there is", dns.TypeANY, dns.RcodeSuccess, []string{alias}, longestKept},
		{"where the zone begins", dns.TypeSOA, dns.RcodeNameError, []string{alias, soa + "5"}, 5 * time.Second},
	} {
		t.Run(c.what, func(t *testing.T) {
			var asked atomic.Int32
			f, now := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
				asked.Add(1)
				tell(w, m, c.rcode, c.records...)
			}))), time.Now()
			f.patience = time.Minute
			f.cache.now = func() time.Time { return now }
			expect := func(questions int32) {
				t.Helper()
				q := of("app.example.org.")
				q.Qtype = c.kind
				if got := told(askWhole(t, f, someone, q)); asked.Load() != questions {
					t.Errorf("%s after %d questions, want %d", got, asked.Load(), questions)
				}
			}
			expect(1)
			if c.keeps > 0 {
				now = now.Add(c.keeps - time.Second)
				expect(1)
				now = now.Add(time.Second)
			}
			expect(2)
		})
	}
}

func TestTheCacheIsBoundedByWhatItHolds(t *testing.T) {
	c := newCache(time.Now)
	long := answer{answer: []dns.RR{&dns.TXT{
		Hdr: dns.RR_Header{Name: "long.example.org.", Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 3600},
		Txt: slices.Repeat([]string{strings.Repeat("x", 255)}, 250), // nearly what a message may have
	}}}
	question := func(i int) dns.Question {
		return dns.Question{Name: fmt.Sprintf("%d.example.org.", i), Qtype: dns.TypeTXT, Qclass: dns.ClassINET}
	}
	const many = 1000
	for i := range many {
		c.put(question(i), long)
		if c.bytes > maxCachedBytes {
			t.Fatalf("%d bytes are cached, want at most %d", c.bytes, maxCachedBytes)
		}
	}
	kept := 0
	for i := range many {
		if _, ok := c.get(question(i), false); ok {
			kept++
		}
	}
	if want := maxCachedBytes / (255 * 250); kept < want-5 || kept > want {
		t.Errorf("%d answers are kept, want nearly %d", kept, want)
	}
	if _, ok := c.get(question(many-1), false); !ok {
		t.Error("the last answer is not kept")
	}
	for c.byUse.Len() > 0 {
		c.remove(c.byUse.Back())
	}
	if c.bytes != 0 || len(c.entries) != 0 {
		t.Errorf("empty, it has %d bytes and %d entries", c.bytes, len(c.entries))
	}
}

func TestAFailureIsKeptForASecond(t *testing.T) {
	var asked atomic.Int32
	f, now := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		asked.Add(1)
		tell(w, m, dns.RcodeServerFailure)
	}))), time.Now()
	f.cache.now = func() time.Time { return now }
	for _, want := range []int32{1, 1, 2} {
		if got := told(askWhole(t, f, someone, of("example.org."))); !strings.Contains(got, "SERVFAIL") || asked.Load() != want {
			t.Errorf("%s after %d questions, want %d", got, asked.Load(), want)
		}
		now = now.Add(failureKept * 3 / 4)
	}
}

func TestTheCacheHasABoundAndKeepsWhatIsUsed(t *testing.T) {
	c := newCache(time.Now)
	record, err := dns.NewRR("example.org. 60 IN A 192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxCached + 100 {
		c.put(of(fmt.Sprint(i)), answer{answer: []dns.RR{record}})
		if _, ok := c.get(of("0"), false); !ok {
			t.Fatalf("what is used is gone after %d others", i)
		}
	}
	if _, ok := c.get(of("1"), false); ok || len(c.entries) != maxCached || c.byUse.Len() != maxCached {
		t.Errorf("%d entries, want %d", len(c.entries), maxCached)
	}
	c.put(of("nothing"), answer{})
	if _, ok := c.get(of("nothing"), false); ok {
		t.Error("an answer that does not say for how long it is good is kept")
	}
}

// A client that has an answer of 4,000 records cached, and asks for it by datagrams as fast as it can, makes the
// node copy and pack no more than a datagram holds, and no goroutine wait.
func TestWhatIsKnownCostsADatagramWhatFitsIntoIt(t *testing.T) {
	const records = 3900
	server := upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		reply := new(dns.Msg).SetReply(m)
		for i := range records {
			reply.Answer = append(reply.Answer, &dns.A{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: []byte{10, 0, byte(i >> 8), byte(i)}})
		}
		if reply.Compress = true; w.RemoteAddr().Network() == "udp" {
			reply.Truncate(MaxUDP)
		}
		_ = w.WriteMsg(reply)
	})
	f := NewForwarder(Fixed(server))
	s := &Server{Zones: NewZones(), Tenant: inBlue, Log: testkit.Quiet(), Forwarder: f}
	if a, err := askWhole(t, f, someone, of("many.example.org.")); err != nil || len(a.answer) != records || a.cut {
		t.Fatalf("%d records, cut: %t, %v", len(a.answer), a.cut, err)
	}
	for _, c := range []struct {
		what string
		edns bool
	}{{"a resolver that takes large datagrams", true}, {"one that does not", false}} {
		m := new(dns.Msg).SetQuestion("Many.example.org.", dns.TypeA)
		most := dns.MinMsgSize
		if c.edns {
			m.SetEdns0(4096, false)
			most = MaxUDP
		}
		data, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		packed := s.answer(t.Context(), data, someone, new(prepared), make([]byte, 0, MaxUDP), func(func() []byte) { t.Errorf("%s: the answer is left for later", c.what) })
		reply := new(dns.Msg)
		if err := reply.Unpack(packed); err != nil || !reply.Truncated || len(packed) > most || len(packed) < most-50 || reply.Answer[0].Header().Name != "Many.example.org." {
			t.Errorf("%s: %d bytes of at most %d, truncated: %t, %v", c.what, len(packed), most, reply.Truncated, err)
		}
	}
	known, _, _ := f.ask("blue", someone, of("many.example.org."), true)
	if len(known.answer) > MaxUDP/12 || !known.cut {
		t.Errorf("%d records are copied for a datagram", len(known.answer))
	}
}

// A datagram's question has a place before it waits for an upstream.
func TestDatagramsWaitOnlyWithAPlace(t *testing.T) {
	release := make(chan struct{})
	f := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		<-release
		tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.1")
	})))
	f.patience = time.Minute
	s := &Server{Zones: NewZones(), Tenant: inBlue, Log: testkit.Quiet(), Forwarder: f}
	var waiting []func() []byte
	for i := range 10 * maxAskedBy {
		data, err := question(fmt.Sprintf("n%d.example.org.", i), dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		now := s.answer(t.Context(), data, someone, new(prepared), nil, func(find func() []byte) { waiting = append(waiting, find) })
		if (now != nil) != (i >= maxAskedBy) {
			t.Fatalf("question %d is answered at once: %t", i, now != nil)
		}
	}
	if len(waiting) != maxAskedBy {
		t.Errorf("%d wait, want %d", len(waiting), maxAskedBy)
	}
	close(release)
	var all sync.WaitGroup
	for _, find := range waiting {
		all.Go(func() { find() })
	}
	all.Wait()
	if len(f.waiting)+len(f.underWay) > 0 {
		t.Errorf("places are held: %v, %v", f.waiting, f.underWay)
	}
}
