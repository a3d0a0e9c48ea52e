package nameserver

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// An alias says for how long it is one, and not for how long its target has no records (RFC 2308).
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
				if got := told(f.ask(t.Context(), "blue", someone, q)); asked.Load() != questions {
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
		if _, ok := c.get(question(i)); ok {
			kept++
		}
	}
	if want := maxCachedBytes / (255 * 250); kept < want-5 || kept > want {
		t.Errorf("%d answers are kept, want nearly %d", kept, want)
	}
	if _, ok := c.get(question(many - 1)); !ok {
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
		if got := told(f.ask(t.Context(), "blue", someone, of("example.org."))); !strings.Contains(got, "SERVFAIL") || asked.Load() != want {
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
		if _, ok := c.get(of("0")); !ok {
			t.Fatalf("what is used is gone after %d others", i)
		}
	}
	if _, ok := c.get(of("1")); ok || len(c.entries) != maxCached || c.byUse.Len() != maxCached {
		t.Errorf("%d entries, want %d", len(c.entries), maxCached)
	}
	c.put(of("nothing"), answer{})
	if _, ok := c.get(of("nothing")); ok {
		t.Error("an answer that does not say for how long it is good is kept")
	}
}
