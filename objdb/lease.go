package objdb

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

const revokeTries = 5

// lease is a lease in the store, and how long this process may rely on it.
//
// Renewals are sent one by one rather than by the client's KeepAlive, because the time of sending counts: the
// store extends the lease at some moment after it, never before. They share one stream as long as it works.
type lease struct {
	db      *DB
	id      clientv3.LeaseID
	ttl     time.Duration             // as granted; the store rounds up
	renewed atomic.Pointer[time.Time] // own clock: when the last answered renewal was sent

	stream *stream // of the last renewal; nil: none
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

// keep renews the lease until ctx ends (nil), or until the lease is
// lost: the store says so, or no renewal was answered within limit.
func (l *lease) keep(ctx context.Context, limit time.Duration) error {
	defer l.hangUp()
	// Several attempts fit into the limit: one that fails leaves time for another.
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
			interval = limit / 20 // retry soon
			l.db.log.WithError(err).Debug("renewing a lease failed")
		}
	}
}

// left returns how long the lease may be relied on, by the own clock.
func (l *lease) left(limit time.Duration) time.Duration {
	return limit - l.db.cfg.Now().Sub(*l.renewed.Load())
}

// overdue returns the error of a lease that may not be relied on any more.
func (l *lease) overdue(limit time.Duration) error {
	return fault.New(fault.Unavailable, "etcd at %s: lease %x: not renewed for %s", l.db.endpoints(), l.id, limit)
}

// revoke ends the lease, and deletes its keys at one revision. Callers wait for that, so an endpoint that does
// not answer soon is left for the next one; revoking twice does no harm.
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
