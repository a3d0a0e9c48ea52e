package nameserver

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// A name server without EDNS may answer no more than FORMERR (RFC 6891, section 7).
func TestWhoDoesNotKnowEDNSIsAskedWithoutIt(t *testing.T) {
	const good = "NOERROR example.org. 60 IN A 192.0.2.1"
	echo := func(m *dns.Msg, rcode int) *dns.Msg { return new(dns.Msg).SetRcode(m, rcode) }
	bare := func(m *dns.Msg, rcode int) *dns.Msg { // only the header
		reply := new(dns.Msg).SetRcode(m, rcode)
		reply.Question = nil
		return reply
	}
	for _, c := range []struct {
		what   string
		reply  func(m *dns.Msg, rcode int) *dns.Msg
		rcode  int
		large  bool // does not fit in a datagram
		always bool // also without EDNS
		asked  string
		want   string
	}{
		{"FORMERR", echo, dns.RcodeFormatError, false, false, "udp+edns udp", good},
		{"NOTIMP", echo, dns.RcodeNotImplemented, false, false, "udp+edns udp", good},
		{"only the header", bare, dns.RcodeFormatError, false, false, "udp+edns udp", good},
		{"a large answer", echo, dns.RcodeFormatError, true, false, "udp+edns udp tcp", good},
		{"always FORMERR", echo, dns.RcodeFormatError, false, true, "udp+edns udp", ": FORMERR"},
		{"always NOTIMP", bare, dns.RcodeNotImplemented, false, true, "udp+edns udp", ": NOTIMP"},
		{"SERVFAIL", echo, dns.RcodeServerFailure, false, false, "udp+edns", ": SERVFAIL"},
		{"a bare SERVFAIL", bare, dns.RcodeServerFailure, false, false, "udp+edns", "another question"},
		{"to another question", func(m *dns.Msg, rcode int) *dns.Msg {
			reply := new(dns.Msg).SetRcode(m, rcode)
			reply.Question[0].Name = "other.example.org."
			return reply
		}, dns.RcodeFormatError, false, false, "udp+edns", "another question"},
	} {
		t.Run(c.what, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			f := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
				by, edns := w.RemoteAddr().Network(), m.IsEdns0() != nil
				mu.Lock()
				asked = append(asked, by+map[bool]string{true: "+edns"}[edns])
				mu.Unlock()
				switch {
				case edns || c.always:
					_ = w.WriteMsg(c.reply(m, c.rcode))
				case c.large && by == "udp":
					reply := new(dns.Msg).SetReply(m)
					reply.Truncated = true
					_ = w.WriteMsg(reply)
				default:
					tell(w, m, dns.RcodeSuccess, "example.org. 60 IN A 192.0.2.1")
				}
			})))
			f.patience = time.Minute
			got := told(askWhole(t, f, someone, of("example.org.")))
			mu.Lock()
			defer mu.Unlock()
			if list := strings.Join(asked, " "); !strings.HasSuffix(got, c.want) || list != c.asked {
				t.Errorf("%s, asked by %s; want %s by %s", got, list, c.want, c.asked)
			}
		})
	}
}

// A name server that answers without EDNS gets further questions without it at once, for a while; one that fails
// either way is asked with EDNS again.
func TestWhoDoesNotKnowEDNSIsAskedOnceForTheNextName(t *testing.T) {
	var mu sync.Mutex
	asked, helps := "", dns.RcodeSuccess
	f := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		edns := m.IsEdns0() != nil
		mu.Lock()
		defer mu.Unlock()
		asked += map[bool]string{true: " edns", false: " plain"}[edns]
		switch {
		case edns:
			tell(w, m, dns.RcodeFormatError)
		case helps != dns.RcodeSuccess:
			tell(w, m, helps)
		default:
			tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.1")
		}
	})))
	f.patience = time.Minute
	now := time.Now()
	f.ednsless.now = func() time.Time { return now }
	ask := func(name, want string) {
		t.Helper()
		mu.Lock()
		asked = ""
		mu.Unlock()
		_, _ = askWhole(t, f, someone, of(name))
		mu.Lock()
		defer mu.Unlock()
		if asked != want {
			t.Errorf("%s was asked%s, want%s", name, asked, want)
		}
	}
	for _, helps = range []int{dns.RcodeFormatError, dns.RcodeServerFailure} {
		ask(fmt.Sprintf("a%d.example.org.", helps), " edns plain")
	}
	helps = dns.RcodeSuccess
	ask("b.example.org.", " edns plain")
	ask("c.example.org.", " plain")
	now = now.Add(askedPlainly - time.Second)
	ask("d.example.org.", " plain")
	now = now.Add(time.Second)
	ask("e.example.org.", " edns plain")
	ask("f.example.org.", " plain")
}

// EDNS may be unknown over TCP alone, where another server answers.
func TestWhoDoesNotKnowEDNSOverTCPIsAskedThereWithoutIt(t *testing.T) {
	var withoutIt atomic.Int32 // questions over UDP
	f := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		switch _, tcp := w.RemoteAddr().(*net.TCPAddr); {
		case !tcp:
			if m.IsEdns0() == nil {
				withoutIt.Add(1)
			}
			reply := new(dns.Msg).SetReply(m)
			reply.Truncated = true
			_ = w.WriteMsg(reply)
		case m.IsEdns0() != nil:
			tell(w, m, dns.RcodeFormatError)
		default:
			tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.1")
		}
	})))
	f.patience = time.Minute
	for _, name := range []string{"example.org.", "again.example.org."} {
		if got := told(askWhole(t, f, someone, of(name))); got != "NOERROR "+name+" 60 IN A 192.0.2.1" {
			t.Error(got)
		}
	}
	if n := withoutIt.Load(); n > 0 {
		t.Errorf("%d questions over UDP have no EDNS, which is known there", n)
	}
}

// The repetition without EDNS gets no time of its own.
func TestWhoDoesNotKnowEDNSIsNotAskedAgainAfterTheTimeIsUp(t *testing.T) {
	var asked atomic.Int32
	ctx, end := context.WithCancel(t.Context())
	server := upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		asked.Add(1)
		end()
		tell(w, m, dns.RcodeFormatError)
	})
	if _, err := NewForwarder(Fixed(server)).exchange(ctx, of("example.org."), server); err == nil || asked.Load() != 1 {
		t.Errorf("%v after %d questions", err, asked.Load())
	}
}
