package objdb

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/contiv/netplugin/test/testkit"
)

// answering is a store of which each member takes some time to answer.
type answering struct {
	mu    sync.Mutex
	takes map[string]time.Duration
	asked map[string]int
}

func (a *answering) ask(ctx context.Context, url string) error {
	a.mu.Lock()
	a.asked[url]++
	takes := a.takes[url]
	a.mu.Unlock()
	select {
	case <-time.After(takes):
		return nil
	case <-ctx.Done():
		return errors.New("no answer")
	}
}

func (a *answering) take(url string, time time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.takes[url] = time
}

// askedSince returns how often an endpoint has been asked since the last call.
func (a *answering) askedSince(url string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer delete(a.asked, url)
	return a.asked[url]
}

// choosing runs a choice among the endpoints a, b and c in a bubble.
func choosing(t *testing.T, test func(t *testing.T, s *serving, store *answering, told *testkit.Text)) {
	synctest.Test(t, func(t *testing.T) {
		log, told := testkit.Recorded()
		store := &answering{takes: map[string]time.Duration{}, asked: map[string]int{}}
		s := newServing(log, store.ask)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.run(ctx, abc, func() {}) })
		defer running.Wait()
		defer stop()
		test(t, s, store, told)
	})
}

func abc() []string { return []string{"http://a:1", "http://b:1", "http://c:1"} }

const never = time.Hour

func TestAnEndpointThatAnswersLateOnceIsNotLeftOut(t *testing.T) {
	choosing(t, func(t *testing.T, s *serving, store *answering, told *testkit.Text) {
		store.take("http://b:1", answerWithin-time.Second)
		s.doubt.Send()
		time.Sleep(time.Minute)
		if got := s.chosen(abc()); !slices.Equal(got, abc()) || told.String() != "" {
			t.Errorf("used: %q; log: %s", got, told)
		}
	})
}

func TestWhileAnEndpointIsLeftOutOnlyThatOneIsAskedAndSeldom(t *testing.T) {
	choosing(t, func(t *testing.T, s *serving, store *answering, _ *testkit.Text) {
		store.take("http://b:1", never)
		s.doubt.Send()
		time.Sleep(answerWithin + time.Second)
		if got := s.chosen(abc()); !slices.Equal(got, []string{"http://a:1", "http://c:1"}) {
			t.Fatalf("used: %q", got)
		}
		for _, url := range abc() {
			store.askedSince(url)
		}
		time.Sleep(10 * time.Minute)
		if a, c := store.askedSince("http://a:1"), store.askedSince("http://c:1"); a+c > 0 {
			t.Errorf("the others are asked %d and %d times", a, c)
		}
		if b := store.askedSince("http://b:1"); b < 10*60/15 || b > 10*60/8 {
			t.Errorf("it is asked %d times in ten minutes", b)
		}
		store.take("http://b:1", 0)
		time.Sleep(2 * longestLeft)
		if got := s.chosen(abc()); !slices.Equal(got, abc()) {
			t.Errorf("used: %q", got)
		}
	})
}

func TestAnEndpointThatServesNowAndThenIsSeldomLeftAndTakenBack(t *testing.T) {
	choosing(t, func(t *testing.T, s *serving, store *answering, told *testkit.Text) {
		for range 10 * 60 {
			if slices.Contains(s.chosen(abc()), "http://b:1") { // a request meets it
				store.take("http://b:1", never)
				s.doubt.Send()
			} else {
				store.take("http://b:1", 0)
			}
			time.Sleep(time.Second)
		}
		if times := strings.Count(told.String(), "serves again"); times < 10 || times > 10*6 {
			t.Errorf("taken back %d times in ten minutes", times)
		}
	})
}

func TestWhereNoEndpointServesTheChoiceStays(t *testing.T) {
	choosing(t, func(t *testing.T, s *serving, store *answering, told *testkit.Text) {
		store.take("http://b:1", never)
		s.doubt.Send()
		time.Sleep(time.Minute)
		for _, url := range abc() {
			store.take(url, never)
		}
		s.doubt.Send()
		time.Sleep(time.Minute)
		if got := s.chosen(abc()); !slices.Equal(got, []string{"http://a:1", "http://c:1"}) {
			t.Errorf("used: %q", got)
		}
		if times := strings.Count(told.String(), "does not serve"); times != 1 {
			t.Errorf("told %d times: %s", times, told)
		}
		if got := s.chosen([]string{"http://b:1"}); !slices.Equal(got, []string{"http://b:1"}) {
			t.Errorf("of one that was left out: %q", got)
		}
	})
}

// Doubts that come all the time do not put off the question to one that is left out.
func TestAnEndpointThatIsLeftOutIsTakenBackAmongDoubts(t *testing.T) {
	for what, takes := range map[string]time.Duration{"the others serve": 0, "the others do not serve any more": never} {
		choosing(t, func(t *testing.T, s *serving, store *answering, _ *testkit.Text) {
			store.take("http://b:1", never)
			s.doubt.Send()
			time.Sleep(5 * time.Minute) // the wait is as long as it gets
			store.take("http://a:1", takes)
			store.take("http://c:1", takes)
			store.take("http://b:1", 0)
			for range 20 {
				s.doubt.Send()
				time.Sleep(time.Second)
			}
			if got := s.chosen(abc()); !slices.Contains(got, "http://b:1") {
				t.Errorf("%s: used: %q", what, got)
			}
		})
	}
}

// It need not be due where the last one in use fails.
func TestWhereTheLastEndpointInUseFailsTheOthersAreAskedAtOnce(t *testing.T) {
	choosing(t, func(t *testing.T, s *serving, store *answering, _ *testkit.Text) {
		store.take("http://b:1", never)
		store.take("http://c:1", never)
		s.doubt.Send()
		time.Sleep(5 * time.Minute)
		for range 10 {
			store.take("http://a:1", 0)
			time.Sleep(longestLeft + 4*time.Second) // another moment between two questions each time
			store.take("http://a:1", never)
			store.take("http://b:1", 0)
			s.doubt.Send()
			time.Sleep(2*answerWithin + 2*askPause) // one of those that are left out may just have been asked
			if got := s.chosen(abc()); !slices.Contains(got, "http://b:1") {
				t.Fatalf("used: %q", got)
			}
			store.take("http://a:1", 0)
			time.Sleep(2 * longestLeft)
			store.take("http://b:1", never)
			s.doubt.Send()
			time.Sleep(time.Minute)
		}
	})
}

func TestAnEndpointThatWasRemovedMeanwhileIsNotLeftOut(t *testing.T) {
	s := newServing(testkit.Quiet(), nil)
	s.note([]string{"http://a:1"}, []string{"http://a:1", "http://b:1"}, []error{nil, errors.New("no answer")})
	if got := s.chosen(abc()); !slices.Equal(got, abc()) {
		t.Errorf("used: %q", got)
	}
}

func TestARequestThatItsCallerGaveUpRaisesNoDoubt(t *testing.T) {
	for what, test := range map[string]struct {
		end    func(context.Context) (context.Context, context.CancelFunc)
		doubts int
	}{
		"given up": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, 0},
		"out of time": {func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 0) }, 1},
	} {
		s := newServing(nil, nil)
		ctx, cancel := test.end(t.Context())
		_ = s.unary(ctx, "", nil, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			return ctx.Err()
		})
		cancel()
		if len(s.doubt) != test.doubts {
			t.Errorf("%s: %d doubts", what, len(s.doubt))
		}
	}
}
