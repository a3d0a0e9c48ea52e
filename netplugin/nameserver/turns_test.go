package nameserver

import (
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// lateServer answers each question after a while, from an address of its own: 192.0.2.NUMBER.
type lateServer struct {
	netip.AddrPort
	asked atomic.Int32
}

// startLate starts one for each time; they give up what is unanswered when the test ends. A negative time: it is silent.
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

// A name server that takes its time costs a question no answer that there is in time: the next one is asked
// meanwhile, and whoever answers first is believed. Who was waited for in vain is told.
func TestTheNextNameServerIsAskedWhileOneIsSlow(t *testing.T) {
	t.Parallel()
	const silent = -1
	const most = upstreamTime - 200*time.Millisecond
	var asking sync.WaitGroup
	for _, c := range []struct {
		what   string
		after  []time.Duration
		by     uint16 // whose answer it is, from 1
		within time.Duration
		asked  []int32
		passed int // how many are told
	}{
		{"both are slow", []time.Duration{1200 * time.Millisecond, 1200 * time.Millisecond}, 1, most, []int32{1, 1}, 0},
		{"the first is slow, the second silent", []time.Duration{1200 * time.Millisecond, silent}, 1, most, []int32{1, 1}, 0},
		{"the first is silent", []time.Duration{silent, 0}, 2, upstreamTime/2 - 100*time.Millisecond, []int32{1, 1}, 1},
		{"two are silent", []time.Duration{silent, silent, 0}, 3, upstreamTime * 2 / 3, []int32{1, 1, 1}, 2},
		{"the first is quick", []time.Duration{0, 0}, 1, most, []int32{1, 0}, 0},
	} {
		servers, upstreams := startLate(t, c.after...)
		f := NewForwarder(upstreams)
		asking.Go(func() {
			began := time.Now()
			got := told(askWhole(t, f, someone, of("example.org.")))
			if took := time.Since(began); !strings.HasSuffix(got, "IN A 192.0.2."+itoa(c.by)) || took > c.within {
				t.Errorf("%s: %s after %s, want that of the name server %d within %s", c.what, got, took, c.by, c.within)
			}
			problem, passed := f.lastProblem()
			if problem != "" || strings.Count(passed, "no answer") != c.passed {
				t.Errorf("%s: problem %q, passed over %q, want %d of these", c.what, problem, passed, c.passed)
			}
			for i, s := range servers {
				if n := s.asked.Load(); n != c.asked[i] {
					t.Errorf("%s: the name server %d was asked %d times, want %d", c.what, i+1, n, c.asked[i])
				}
				if told := strings.Contains(passed, s.String()); told != (i < c.passed) {
					t.Errorf("%s: of the name server %d, %s, it is told %v in %q", c.what, i+1, s, told, passed)
				}
			}
		})
	}
	asking.Wait()
}

// Questions to others are as many as there may be, however many name servers are slow.
func TestSlowNameServersMakeNoMoreQuestions(t *testing.T) {
	t.Parallel()
	servers, upstreams := startLate(t, -1, -1)
	f := NewForwarder(upstreams)
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
