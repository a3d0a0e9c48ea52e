package objdb

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

const revokeTries = 5

// lease is a lease in the store and what this process may believe about it.
//
// Renewals are sent one by one rather than by the client's KeepAlive, because
// the time that counts is that of sending: the store extends the lease at some
// moment after it, never before. They share one stream, for as long as it works.
type lease struct {
	db      *DB
	id      clientv3.LeaseID
	ttl     time.Duration             // as granted; the store rounds up to what it can promise
	renewed atomic.Pointer[time.Time] // own clock: sending of the last renewal that was answered

	stream etcdserverpb.Lease_LeaseKeepAliveClient // nil: to be opened
	end    context.CancelFunc                      // ends the stream
}

// grant obtains a lease of at least ttl, in whole seconds.
func (db *DB) grant(ctx context.Context, ttl time.Duration) (*lease, error) {
	sent := db.cfg.Now()
	resp, err := Call(ctx, db, "grant lease", func(ctx context.Context, c *clientv3.Client) (*clientv3.LeaseGrantResponse, error) {
		return c.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	})
	if err != nil {
		return nil, err
	}
	held := &lease{db: db, id: resp.ID, ttl: time.Duration(resp.TTL) * time.Second}
	held.renewed.Store(&sent)
	return held, nil
}

// keep renews the lease until ctx ends, which gives nil, or until the lease is
// lost: the store says so, or no renewal was answered for limit.
func (l *lease) keep(ctx context.Context, limit time.Duration) error {
	defer l.hangUp()
	// Several attempts fit into the limit, so that one that got stuck on an
	// endpoint which does not answer leaves time for another.
	interval := limit / 4
	for {
		retry.Pause(ctx, min(interval, l.left(limit)))
		if ctx.Err() != nil {
			return nil
		}
		left := l.left(limit)
		if left <= 0 {
			return l.overdue(limit)
		}
		err := l.renew(ctx, min(left, limit/4))
		switch {
		case err == nil:
			interval = limit / 4
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return fault.New(fault.Unavailable, "etcd at %s: lease %x has expired: %w", l.db.endpoints(), l.id, err)
		case ctx.Err() != nil:
			return nil
		default:
			interval = limit / 20 // soon again
			l.db.log.WithError(err).Debug("renewing a lease failed")
		}
	}
}

// left is how long the own clock still trusts the lease.
func (l *lease) left(limit time.Duration) time.Duration {
	return limit - l.db.cfg.Now().Sub(*l.renewed.Load())
}

// overdue says that the own clock trusts the lease no more.
func (l *lease) overdue(limit time.Duration) error {
	return fault.New(fault.Unavailable, "etcd at %s: lease %x: not renewed for %s", l.db.endpoints(), l.id, limit)
}

func (l *lease) renew(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	sent := l.db.cfg.Now()
	if l.db.cfg.OneAtATime {
		defer l.hangUp() // it would cost who serves many such clients more than one that is begun each time
	}
	_, err := Call(ctx, l.db, "renew lease", l.exchange)
	if err == nil {
		l.renewed.Store(&sent)
	}
	return err
}

// exchange sends one renewal and waits for the answer. A stream that fails or
// does not answer in time is given up, so that the next one may go to another member.
func (l *lease) exchange(ctx context.Context, c *clientv3.Client) (_ *clientv3.LeaseKeepAliveResponse, err error) {
	defer func() {
		if err != nil {
			l.hangUp()
			err = errors.Join(ctx.Err(), err)
		}
	}()
	lasting := context.Background() // the stream outlives this exchange
	if l.stream == nil {
		lasting, l.end = context.WithCancel(lasting)
	}
	defer context.AfterFunc(ctx, l.end)()
	if l.stream == nil {
		if l.stream, err = clientv3.RetryLeaseClient(c).LeaseKeepAlive(lasting); err != nil {
			return nil, err
		}
	}
	if err := l.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(l.id)}); err != nil {
		return nil, err
	}
	resp, err := l.stream.Recv()
	if err != nil {
		return nil, err
	}
	if resp.TTL <= 0 {
		return nil, rpctypes.ErrLeaseNotFound
	}
	return &clientv3.LeaseKeepAliveResponse{ResponseHeader: resp.Header, ID: l.id, TTL: resp.TTL}, nil
}

// hangUp gives up the stream.
func (l *lease) hangUp() {
	if l.end != nil {
		l.end()
	}
	l.stream, l.end = nil, nil
}

// revoke ends the lease; its keys go with it, all at one revision. Somebody
// waits for that, so an endpoint that does not answer at once is left for the
// next one; revoking twice does no harm.
func (l *lease) revoke(ctx context.Context) error {
	var err error
	for range revokeTries {
		trying, cancel := context.WithTimeout(ctx, l.db.cfg.RequestTimeout/revokeTries)
		_, err = Call(trying, l.db, "revoke lease", func(ctx context.Context, c *clientv3.Client) (*clientv3.LeaseRevokeResponse, error) {
			return c.Revoke(ctx, l.id)
		})
		cancel()
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return nil // expired before: the same result
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}
