package nameserver

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// lateServer answers each question after a while, from an address of its own: 192.0.2.NUMBER.
type lateServer struct {
	netip.AddrPort
	asked atomic.Int32
}

// startLate starts one server for each time; they drop unanswered questions when the test ends. A negative time:
// it is silent.
func startLate(t *testing.T, after ...time.Duration) (servers []*lateServer, upstreams Upstream) {
	t.Helper()
	ended := make(chan struct{})
	var addresses []netip.AddrPort
	for i, after := range after {
		s := &lateServer{}
		late := (<-chan time.Time)(nil)
		s.AddrPort = upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
			s.asked.Add(1)
			late := late
			if after >= 0 {
				late = time.After(after)
			}
			select {
			case <-late:
				tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2."+itoa(uint16(i+1)))
			case <-ended:
			}
		})
		servers, addresses = append(servers, s), append(addresses, s.AddrPort)
	}
	t.Cleanup(func() { close(ended) })
	return servers, Fixed(addresses...)
}

// A slow name server costs no question an answer that exists in time: the next one is asked meanwhile, and the
// first answer counts. Name servers without an answer are reported.
func TestTheNextNameServerIsAskedWhileOneIsSlow(t *testing.T) {
	const silent = -1
	for _, c := range []struct {
		what   string
		after  []time.Duration
		by     int // whose answer it is
		took   time.Duration
		asked  int
		passed int // how many are reported
	}{
		{"both are slow", []time.Duration{1200 * time.Millisecond, 1200 * time.Millisecond}, 0, 1200 * time.Millisecond, 2, 0},
		{"the first is slow, the second silent", []time.Duration{1200 * time.Millisecond, silent}, 0, 1200 * time.Millisecond, 2, 0},
		{"the first is silent", []time.Duration{silent, 0}, 1, nextTurn, 2, 1},
		{"two are silent", []time.Duration{silent, silent, 0}, 2, 2 * nextTurn, 3, 2},
		{"the first is quick", []time.Duration{0, 0}, 0, 0, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), upstreamTime)
			defer cancel()
			var servers []netip.AddrPort
			for i := range c.after {
				servers = append(servers, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 53))
			}
			var asked atomic.Int32
			answers := make([]*dns.Msg, len(servers))
			began := time.Now()
			reply, passed := askServers(ctx, servers, upstreamTime, func(ctx context.Context, server netip.AddrPort) (*dns.Msg, error) {
				asked.Add(1)
				i := slices.Index(servers, server)
				late := (<-chan time.Time)(nil)
				if c.after[i] >= 0 {
					late = time.After(c.after[i])
				}
				select {
				case <-late:
					answers[i] = new(dns.Msg)
					return answers[i], nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})
			if took := time.Since(began); reply == nil || reply != answers[c.by] || took != c.took || int(asked.Load()) != c.asked {
				t.Errorf("%s: after %s, %d were asked; want the answer of %s after %s, and %d asked", c.what, took, asked.Load(), servers[c.by], c.took, c.asked)
			}
			if passed == nil && c.passed > 0 || passed != nil && strings.Count(passed.Error(), "no answer") != c.passed {
				t.Errorf("%s: passed over %v, want %d", c.what, passed, c.passed)
			}
			for i, s := range servers {
				if told := passed != nil && strings.Contains(passed.Error(), s.String()); told != (i < c.passed) {
					t.Errorf("%s: of %s it is told %v in %v", c.what, s, told, passed)
				}
			}
		})
	}
}

// Clients that ask for one name cause one question to each name server, however many of these are slow.
func TestSlowNameServersMakeNoMoreQuestions(t *testing.T) {
	t.Parallel()
	servers, upstreams := startLate(t, -1, -1)
	f := NewForwarder(upstreams)
	f.patience = slowPatience // all ask, and both are asked, before it is over
	var asking sync.WaitGroup
	for range maxAskedBy {
		asking.Go(func() {
			if got := told(askWhole(t, f, someone, of("example.org."))); !strings.Contains(got, servers[0].String()) || !strings.Contains(got, servers[1].String()) {
				t.Error(got)
			}
		})
	}
	asking.Wait()
	for i, s := range servers {
		if n := s.asked.Load(); n != 1 {
			t.Errorf("the name server %d was asked %d times", i+1, n)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting)+len(f.underWay)+len(f.begun) != 0 {
		t.Errorf("left: %v %v %v", f.waiting, f.underWay, f.begun)
	}
}
