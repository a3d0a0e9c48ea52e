package objdb

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// renewalsAtOnce is the maximum number of unanswered renewals of a lease.
const renewalsAtOnce = 4

// stream is a stream for renewals of a lease.
type stream struct {
	etcdserverpb.Lease_LeaseKeepAliveClient
	end context.CancelFunc
}

// renewal is a sent renewal and its result.
type renewal struct {
	on     *stream // nil if it failed
	sent   time.Time
	answer *clientv3.LeaseKeepAliveResponse
	err    error
}

// renew renews the lease, within a time limit. While there is no answer, it sends the same on other streams,
// too, which may go to other members: the client chooses these in turn, and other requests go in between.
func (l *lease) renew(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	atOnce := renewalsAtOnce
	if l.db.cfg.OneAtATime { // all streams are on one connection
		atOnce = 1
		defer l.hangUp() // many open streams would cost a gate more than opening one for each renewal
	}
	_, err := Call(ctx, l.db, "renew lease", func(ctx context.Context, c *clientv3.Client) (*clientv3.LeaseKeepAliveResponse, error) {
		r := l.first(ctx, c, atOnce, max(within/(renewalsAtOnce+1), 1))
		if l.stream = r.on; r.err == nil {
			l.renewed.Store(&r.sent)
		}
		return r.answer, r.err
	})
	return err
}

// first sends a renewal, on the stream of the last one if it exists, and after each pause without an answer another
// one. It returns the first that is answered, or the last if none is; the streams of the others are closed then.
func (l *lease) first(ctx context.Context, c *clientv3.Client, atOnce int, pause time.Duration) (first renewal) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results, waiting := make(chan renewal), 0
	send := func(on *stream) {
		waiting++
		go func() { results <- l.exchange(ctx, c, on) }()
	}
	send(l.stream)
	again := time.NewTicker(pause)
	defer again.Stop()
	for decided := false; waiting > 0; {
		select {
		case <-again.C:
			if !decided && waiting < atOnce {
				send(nil)
			}
		case r := <-results:
			waiting--
			if decided {
				r.on.hangUp()
				continue
			}
			first = r
			if decided = r.err == nil || errors.Is(r.err, rpctypes.ErrLeaseNotFound); decided {
				cancel()
			}
		}
	}
	return first
}

// exchange sends one renewal, on a new stream if on is nil, and waits for the answer. A stream that fails or
// does not answer in time is closed.
func (l *lease) exchange(ctx context.Context, c *clientv3.Client, on *stream) (r renewal) {
	lasting := context.Background() // the stream outlives this exchange
	if on == nil {
		on = &stream{}
		lasting, on.end = context.WithCancel(lasting)
	}
	defer func() {
		if r.err != nil {
			on.hangUp()
			r = renewal{err: errors.Join(ctx.Err(), r.err)}
		}
	}()
	defer context.AfterFunc(ctx, on.end)()
	r = renewal{on: on, sent: l.db.cfg.Now()}
	if on.Lease_LeaseKeepAliveClient == nil {
		if on.Lease_LeaseKeepAliveClient, r.err = clientv3.RetryLeaseClient(c).LeaseKeepAlive(lasting); r.err != nil {
			return r
		}
	}
	if r.err = on.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(l.id)}); r.err != nil {
		return r
	}
	resp, err := on.Recv()
	switch {
	case err != nil:
		r.err = err
	case resp.TTL <= 0:
		r.err = rpctypes.ErrLeaseNotFound
	default:
		r.answer = &clientv3.LeaseKeepAliveResponse{ResponseHeader: resp.Header, ID: l.id, TTL: resp.TTL}
	}
	return r
}

// hangUp closes the stream, if there is one.
func (s *stream) hangUp() {
	if s != nil {
		s.end()
	}
}

// hangUp closes the lease's stream.
func (l *lease) hangUp() {
	l.stream.hangUp()
	l.stream = nil
}
