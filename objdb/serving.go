package objdb

import (
	"context"
	"errors"
	"net"
	"net/url"
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
	// doubtAfter is how long a request may take before all endpoints are asked whether they serve.
	doubtAfter = time.Second
	// askEvery is the pause between two such questions, also while an endpoint is left out.
	askEvery = time.Second
)

// serving keeps a client that uses several endpoints in turn away from those that do not serve. A member that is cut off
// from the others, or whose disk hangs, accepts connections and answers to pings, and so gRPC goes on to use it: one
// request in so many would wait in vain for as long as that lasts, and hardly anything that takes several requests
// would succeed.
//
// A request without an answer raises a doubt. Then each endpoint is asked for something that needs a quorum. Those that
// do not answer, while others do, are left out until they do, and their connections are closed: what waits there is
// repeated elsewhere if it may be, and watches go on at another member.
type serving struct {
	log   *logrus.Entry
	ask   func(ctx context.Context, url string) error // nil: it serves
	doubt notify.Signal

	mu   sync.Mutex
	open map[*dialled]struct{} // connections
	out  map[string]bool       // URLs that are left out
}

func newServing(log *logrus.Entry, ask func(ctx context.Context, url string) error) *serving {
	return &serving{log: log, ask: ask, doubt: notify.New(), open: map[*dialled]struct{}{}, out: map[string]bool{}}
}

// serves asks the endpoint of a client for something that needs a quorum. Any answer will do, also a refusal for want of
// a user: the store has looked for its quorum before.
func serves(ctx context.Context, cfg clientv3.Config) error {
	client, err := clientv3.New(cfg)
	if err != nil {
		return err
	}
	defer client.Close() // its error says that its own context has ended
	if _, err = client.Get(ctx, lockRoot, clientv3.WithCountOnly()); missesQuorum(err) {
		return err
	}
	return nil
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

// unary raises a doubt about a request that takes long.
func (s *serving) unary(ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	defer time.AfterFunc(doubtAfter, s.doubt.Send).Stop()
	err := invoke(ctx, method, request, answer, cc, opts...)
	if missesQuorum(err) {
		s.doubt.Send()
	}
	return err
}

// chosen returns the endpoints to use of all.
func (s *serving) chosen(all []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := slices.DeleteFunc(slices.Clone(all), func(url string) bool { return s.out[url] })
	if len(used) == 0 {
		return all
	}
	return used
}

// run asks endpoints when there is a doubt, or one is left out, until ctx ends. all returns the present endpoints;
// direct is called when the choice among them has changed.
func (s *serving) run(ctx context.Context, all func() []string, direct func()) {
	for {
		var again <-chan time.Time
		if s.someOut() {
			again = time.After(askEvery)
		}
		select {
		case <-s.doubt:
		case <-again:
		case <-ctx.Done():
			return
		}
		if urls := all(); len(urls) > 1 || s.someOut() {
			s.note(ctx, urls, s.askAll(ctx, urls), direct)
		}
		retry.Pause(ctx, askEvery)
	}
}

func (s *serving) someOut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.out) > 0
}

// askAll asks endpoints whether they serve, all at once; nil: it does.
func (s *serving) askAll(ctx context.Context, urls []string) []error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	results := make([]error, len(urls))
	var asking sync.WaitGroup
	for i, url := range urls {
		asking.Go(func() { results[i] = s.ask(ctx, url) })
	}
	asking.Wait()
	return results
}

// note chooses the endpoints that serve; all, if none does.
func (s *serving) note(ctx context.Context, urls []string, results []error, direct func()) {
	if ctx.Err() != nil {
		return
	}
	out := map[string]bool{}
	if slices.Contains(results, nil) {
		for i, url := range urls {
			if results[i] != nil {
				out[url] = true
			}
		}
	}
	s.mu.Lock()
	before := s.out
	s.out = out
	s.mu.Unlock()
	changed := len(before) != len(out)
	for i, url := range urls {
		log := s.log.WithField("endpoint", url)
		switch {
		case out[url] && !before[url]:
			changed = true
			log.WithError(results[i]).Warn("an endpoint of the store does not serve: the others are used until it does")
		case before[url] && results[i] == nil:
			log.Info("the endpoint of the store serves again")
		}
	}
	if !changed {
		return
	}
	direct()
	s.close(out)
}

// close closes the connections to endpoints.
func (s *serving) close(urls map[string]bool) {
	hosts := map[string]bool{}
	for text := range urls {
		if u, err := url.Parse(text); err == nil {
			hosts[u.Host] = true
		}
	}
	s.mu.Lock()
	var closing []*dialled
	for c := range s.open {
		if hosts[c.address] {
			closing = append(closing, c)
		}
	}
	s.mu.Unlock()
	for _, c := range closing {
		_ = c.Conn.Close() // gRPC closes it as well
	}
}

// dial opens a connection, which is recorded until it is closed.
func (s *serving) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Control: setUserTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &dialled{Conn: conn, address: address, by: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = struct{}{}
	return c, nil
}

// dialled is a connection to an endpoint.
type dialled struct {
	net.Conn
	address string // dialled address
	by      *serving
}

// Close implements net.Conn.
func (d *dialled) Close() error {
	d.by.mu.Lock()
	delete(d.by.open, d)
	d.by.mu.Unlock()
	return d.Conn.Close()
}
