package objdb

import (
	"cmp"
	"hash/maphash"
	"net"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/contiv/netplugin/utils/retry"
)

// oneConnection makes gRPC use one of the endpoints: the first that accepts a connection, and the next when a
// connection cannot be made. etcd's default is a connection to each.
const oneConnection = `{"loadBalancingConfig": [{"pick_first": {}}]}`

// How long a client stays at an endpoint after a switch: twice as long after each endpoint that does not serve,
// and after a calm period as short as at first.
const (
	firstStay   = time.Second
	longestStay = 4 * time.Second // with patience, five seconds: in a cluster of a thousand nodes each of three netmasters has a hundred connections a second, while none serves
	calm        = 2 * longestStay
	// patience is how long an endpoint may fail to serve: the store elects another leader in less, and all
	// clients of an endpoint would leave it at the same moment.
	patience = time.Second
)

// route selects the endpoint of a client that uses one of several at a time. Each client tries them in its own
// order, so that many clients are spread over them. gRPC stays at an endpoint that accepts connections but does
// not serve; route moves such an endpoint to the end of the order, and closes its connection.
type route struct {
	seed maphash.Seed

	setting sync.Mutex       // of endpoints
	client  *clientv3.Client // nil: not created yet
	order   []string

	conns           // their mu guards these, too:
	until time.Time // end of the stay
	stay  *retry.Pacer
}

func newRoute() *route {
	return &route{seed: maphash.MakeSeed(), stay: retry.NewPacer(firstStay, longestStay)}
}

// options returns the options of a client with this route.
func (r *route) options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDisableServiceConfig(), grpc.WithDefaultServiceConfig(oneConnection), grpc.WithContextDialer(r.dial),
		grpc.WithChainUnaryInterceptor(r.unary), grpc.WithChainStreamInterceptor(r.stream),
	}
}

// sorted returns URLs in the order in which this client tries them, which does not change when others are added or
// removed.
func (r *route) sorted(urls []string) []string {
	rank := func(url string) uint64 { return maphash.String(r.seed, url) }
	return slices.SortedFunc(slices.Values(urls), func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
}

// set sets the endpoints of the client.
func (r *route) set(client *clientv3.Client, urls []string) {
	r.setting.Lock()
	defer r.setting.Unlock()
	r.client, r.order = client, r.sorted(urls)
	client.SetEndpoints(r.order...)
}

// reportFailure is called when a call over a connection is not served; nil: over any connection. If there are
// other endpoints, the client switches to one, unless it has just switched.
func (r *route) reportFailure(c *conn) {
	if at := r.leaving(c, time.Now()); len(at) > 0 {
		r.postpone(at)
		for _, c := range at {
			_ = c.Conn.Close() // gRPC closes it as well
		}
	}
}

// leaving returns the connections to close after a failure.
func (r *route) leaving(c *conn, now time.Time) (at []*conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.until) {
		return nil
	}
	for open := range r.open {
		if c == nil || c == open {
			at = append(at, open)
		}
	}
	if len(at) == 0 { // closed already
		return nil
	}
	if now.Sub(r.until) > calm {
		r.stay.Reset()
	}
	r.until = now.Add(r.stay.Next())
	return at
}

// postpone moves endpoints to the end of the order.
func (r *route) postpone(at []*conn) {
	r.setting.Lock()
	defer r.setting.Unlock()
	var others, tried []string
	for _, url := range r.order {
		if slices.ContainsFunc(at, func(c *conn) bool { return c.leads(url) }) {
			tried = append(tried, url)
		} else {
			others = append(others, url)
		}
	}
	r.order = append(others, tried...)
	if r.client != nil {
		r.client.SetEndpoints(r.order...) // an existing connection is kept
	}
}

// noteCall records whether a call from a local address was served. Calls over connections that are closed by now are ignored.
func (r *route) noteCall(local net.Addr, served bool, now time.Time) {
	if c := r.failingConnection(local, served, now); c != nil {
		r.reportFailure(c)
	}
}

// failingConnection returns the connection from a local address, if no call was served there for too long.
func (r *route) failingConnection(local net.Addr, served bool, now time.Time) *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		switch {
		case c.LocalAddr().String() != local.String():
		case served:
			c.since = time.Time{}
		case c.since.IsZero():
			c.since = now
		case now.Sub(c.since) >= patience:
			return c
		}
	}
	return nil
}
