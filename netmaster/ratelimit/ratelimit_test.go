package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

var (
	begin  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	limits = Limits{Rate: 10, Burst: 20, Most: [kinds]int{Watch: 2, Apply: 1, LongAnswer: 3}}
)

// A client with too many requests has to wait at first, and is refused then, until it has been silent; others do
// not notice.
func TestAClientHasItsRateAndNoMore(t *testing.T) {
	s := New(limits)
	var waits []time.Duration
	for range 30 {
		wait, ok := s.Request("ann", begin)
		if !ok {
			t.Fatalf("refused after %v", waits)
		}
		waits = append(waits, wait)
	}
	if waits[19] != 0 || waits[20] != 100*time.Millisecond || waits[29] != time.Second {
		t.Errorf("waits: %v", waits)
	}
	for range 1000 {
		if wait, ok := s.Request("ann", begin); ok || wait <= time.Second || wait > 2*time.Second {
			t.Fatalf("too much is let in, or waits forever: %s %t", wait, ok)
		}
	}
	if wait, ok := s.Request("bob", begin); wait != 0 || !ok {
		t.Errorf("bob: %s %t", wait, ok)
	}
	if wait, ok := s.Request("ann", begin.Add(time.Second)); wait > 200*time.Millisecond || !ok { // those that waited have used the second
		t.Errorf("a second later: %s %t", wait, ok)
	}
	if wait, ok := s.Request("ann", begin.Add(time.Minute)); wait != 0 || !ok {
		t.Errorf("a minute later: %s %t", wait, ok)
	}
	unlimited := New(Limits{Rate: rate.Inf})
	for range 1000 {
		if wait, ok := unlimited.Request("ann", begin); wait != 0 || !ok {
			t.Fatalf("without a limit: %s %t", wait, ok)
		}
	}
}

// Requests that arrive out of the order of their times get no more than others.
func TestRequestsOfTheSameTimeOvertakeEachOther(t *testing.T) {
	s, given := New(limits), 0
	for i := range 1000 {
		if _, ok := s.Request("ann", begin.Add(time.Duration(1-i%2)*time.Second/2)); ok {
			given++
		}
	}
	if most := limits.Burst + int(limits.Rate); given > most { // at once, and those that wait
		t.Errorf("%d requests in half a second, want %d at most", given, most)
	}
}

func TestWhatLastsIsCountedByKindUntilItEnds(t *testing.T) {
	s := New(limits)
	first, ok := s.Take("ann", Apply, begin)
	if !ok {
		t.Fatal("the first is refused")
	}
	if _, ok := s.Take("ann", Apply, begin); ok {
		t.Error("two at once")
	}
	for _, other := range []struct {
		client string
		kind   Lasting
	}{{"bob", Apply}, {"ann", Watch}} {
		if _, ok := s.Take(other.client, other.kind, begin); !ok {
			t.Errorf("%+v is refused", other)
		}
	}
	first()
	if _, ok := s.Take("ann", Apply, begin); !ok {
		t.Error("refused after the first has ended")
	}
}

func TestARefusalIsToldNowAndThen(t *testing.T) {
	s := New(limits)
	told, all := 0, int64(0)
	for i := range 61 {
		if left, worth := s.Tell("ann", Excess, begin.Add(time.Duration(i)*time.Second)); worth {
			told++
			all += 1 + left
		}
	}
	if told != 7 || all != 61 {
		t.Errorf("told %d times in a minute, of %d", told, all)
	}
	if left, worth := s.Tell("bob", Excess, begin); left != 0 || !worth {
		t.Errorf("the first of another: %d, %t", left, worth)
	}
}

// However many clients there are, few of them are kept, and none with a request in progress is dropped.
func TestClientsThatAreSilentAreForgotten(t *testing.T) {
	s := New(limits)
	if _, ok := s.Take("ann", Apply, begin); !ok {
		t.Fatal("refused")
	}
	now := begin
	for i := range 100_000 {
		now = now.Add(time.Millisecond)
		s.Request(fmt.Sprint(i), now)
	}
	if n := len(s.of); n > 20_000 {
		t.Errorf("%d of 100000 clients are remembered, one a millisecond", n)
	}
	if _, ok := s.Take("ann", Apply, now); ok {
		t.Error("what ann has is forgotten")
	}
	first := now
	for range 200 { // of bob, who asks no more
		s.Tell("bob", Refusal, first)
	}
	for i := range 2000 {
		s.Request(fmt.Sprint("after bob ", i), first.Add(8*time.Second))
	}
	s.sweep(first.Add(8 * time.Second))
	if _, worth := s.Tell("bob", Refusal, first.Add(8*time.Second)); worth {
		t.Error("what was told of bob is forgotten")
	}
	for i := range 2 * remembered {
		s.Request(fmt.Sprint("at once ", i), now)
	}
	if n := len(s.of); n > remembered+1 {
		t.Errorf("%d clients are remembered", n)
	}
}
