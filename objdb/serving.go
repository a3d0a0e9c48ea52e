package objdb

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
)

const (
	// doubtAfter is how long a request may take before the endpoints are asked whether they serve.
	doubtAfter = time.Second
	// answerWithin is how long an endpoint may take to answer that. A member whose disk is slow for a moment is not left.
	answerWithin = 3 * time.Second

	// askPause is the pause between two such questions.
	askPause = time.Second

	// How long endpoints are left out until they are asked again, twice as long each time, unless no other serves. So one that
	// serves now and then is left and taken back six times a minute at most.
	firstLeft, longestLeft = time.Second, 10 * time.Second
	// settledAfter is how long there has to be no doubt until that is as short as at first.
	settledAfter = time.Minute
)

// serving keeps a client that uses several endpoints in turn away from those that do not serve. A member that is cut off
// from the others, or whose disk hangs, accepts connections and answers to pings, and so gRPC goes on to use it: one
// request in so many would wait in vain for as long as that lasts, and hardly anything that takes several requests
// would succeed.
//
// A request without an answer raises a doubt. Then each endpoint in use is asked for something that needs a quorum. Those
// that do not answer, while others do, are left out until they do, and their connections are closed: what waits there is
// repeated elsewhere if it may be, and watches go on at another member.
type serving struct {
	log   *logrus.Entry
	ask   func(ctx context.Context, url string) error // nil: it serves
	doubt notify.Signal

	conns
	choosing sync.Mutex
	out      map[string]bool // URLs that are left out
}

func newServing(log *logrus.Entry, ask func(ctx context.Context, url string) error) *serving {
	return &serving{log: log, ask: ask, doubt: notify.New(), out: map[string]bool{}}
}

// serves asks the endpoint of a client for something that needs a quorum, until ctx ends; its error is the last one that
// is not the end of ctx, if there was one. Any answer will do, also a refusal for want of a user: the store has looked
// for its quorum before.
func serves(ctx context.Context, cfg clientv3.Config) (failed error) {
	cfg.MaxUnaryRetries = 1 // or the client would repeat the request until ctx ends, and keep the cause to itself
	client, err := clientv3.New(cfg)
	if err != nil {
		return err
	}
	defer client.Close() // its error says that its own context has ended
	for {
		_, err := client.Get(ctx, lockRoot, clientv3.WithCountOnly())
		switch {
		case !missesQuorum(err):
			return nil
		case ctx.Err() != nil:
			return cmp.Or(failed, err)
		}
		failed = err
		retry.Pause(ctx, reconnect.Backoff.BaseDelay)
	}
}

// missesQuorum reports whether an endpoint has failed to ask the quorum. A learner has not: it refuses at once, and the
// client asks the next endpoint.
func missesQuorum(err error) bool {
	return err != nil && kindOf(err) == fault.Unavailable && !errors.Is(rpctypes.Error(err), errLearner)
}

// options returns the options of a client that it keeps.
func (s *serving) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithContextDialer(s.dial), grpc.WithChainUnaryInterceptor(s.unary)}
}

// unary raises a doubt about a request that takes long, or fails without being given up by its caller.
func (s *serving) unary(ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	defer time.AfterFunc(doubtAfter, s.doubt.Send).Stop()
	err := invoke(ctx, method, request, answer, cc, opts...)
	if missesQuorum(err) && !errors.Is(ctx.Err(), context.Canceled) {
		s.doubt.Send()
	}
	return err
}

// chosen returns the endpoints to use of all.
func (s *serving) chosen(all []string) []string {
	if used, _ := s.split(all); len(used) > 0 {
		return used
	}
	return all
}

// split returns the endpoints of all that are in use, and those that are left out.
func (s *serving) split(all []string) (used, left []string) {
	s.choosing.Lock()
	defer s.choosing.Unlock()
	for _, url := range all {
		if s.out[url] {
			left = append(left, url)
		} else {
			used = append(used, url)
		}
	}
	return used, left
}

// run asks the endpoints in use when there is a doubt, and those that are left out now and then, until ctx ends. all
// returns the present endpoints; direct is called when the choice among them has changed.
func (s *serving) run(ctx context.Context, all func() []string, direct func()) {
	pace := retry.NewPacer(firstLeft, longestLeft)
	var due, last time.Time // when those that are left out are asked again; when there was a doubt
	for {
		var again <-chan time.Time
		if _, left := s.split(all()); len(left) > 0 {
			again = time.After(time.Until(due)) // doubts do not put it off
		}
		var asked []string
		select {
		case <-s.doubt:
			urls := all()
			if len(urls) == 1 { // there is no other
				continue
			}
			if again == nil && time.Since(last) > settledAfter {
				pace.Reset()
			}
			last = time.Now()
			asked, _ = s.split(urls)
		case <-again:
		case <-ctx.Done():
			return
		}
		isDue := again != nil && !time.Now().Before(due)
		changed := s.round(ctx, asked, isDue, all)
		if ctx.Err() != nil {
			return
		}
		if changed {
			direct()
			s.closeLeft(all())
		}
		if changed || isDue {
			due = time.Now().Add(pace.Next())
		}
		retry.Pause(ctx, askPause)
	}
}

// round asks endpoints whether they serve; those that are left out, too, if that is due, if only one is in use, or if none
// of these serves. It reports whether the choice has changed.
func (s *serving) round(ctx context.Context, asked []string, isDue bool, all func() []string) (changed bool) {
	_, left := s.split(all())
	also := isDue || len(asked) == 1
	if also {
		asked = slices.Concat(asked, left)
	}
	results := s.askEach(ctx, asked)
	if !also && !slices.Contains(results, nil) {
		asked, results = slices.Concat(asked, left), slices.Concat(results, s.askEach(ctx, left))
	}
	return ctx.Err() == nil && s.note(all(), asked, results)
}

// askEach asks endpoints whether they serve, all at once; nil: it does.
func (s *serving) askEach(ctx context.Context, urls []string) []error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	results := make([]error, len(urls))
	var asking sync.WaitGroup
	for i, url := range urls {
		asking.Go(func() { results[i] = s.ask(ctx, url) })
	}
	asking.Wait()
	return results
}

// note leaves out the asked endpoints of all that do not serve, if one does, and takes back those that serve. It reports
// whether the choice has changed.
func (s *serving) note(all, asked []string, results []error) (changed bool) {
	s.choosing.Lock()
	defer s.choosing.Unlock()
	maps.DeleteFunc(s.out, func(url string, _ bool) bool { return !slices.Contains(all, url) })
	for i, url := range asked {
		log := s.log.WithField("endpoint", url)
		switch {
		case !slices.Contains(all, url): // it was removed meanwhile
		case results[i] == nil && s.out[url]:
			delete(s.out, url)
			changed = true
			log.Info("the endpoint of the store serves again")
		case results[i] != nil && !s.out[url] && slices.Contains(results, nil):
			s.out[url] = true
			changed = true
			log.WithError(results[i]).Warn("an endpoint of the store does not serve: the others are used until it does")
		}
	}
	return changed
}

// closeLeft closes the connections to the endpoints of all that are left out.
func (s *serving) closeLeft(all []string) {
	_, left := s.split(all)
	s.mu.Lock()
	var closing []*conn
	for c := range s.open {
		if slices.ContainsFunc(left, c.leads) {
			closing = append(closing, c)
		}
	}
	s.mu.Unlock()
	for _, c := range closing {
		_ = c.Conn.Close() // gRPC closes it as well
	}
}
