package objdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/logging"
	"github.com/contiv/netplugin/utils/retry"
)

const lockRoot = "/contiv.io/lock/"

// CampaignConfig describes a candidacy.
type CampaignConfig struct {
	Lock  string        // name of the lock, "netmaster/leader"
	Value string        // shown to others as the holder, "10.1.1.1:9999"
	TTL   time.Duration // a successor leads at most this and a second after the holder's death
}

// leaseTTL returns the TTL of the lease for a term of ttl, in whole seconds, of which etcd grants at least 2.
//
// When the leader of the store dies together with the holder, the store first elects a new leader, within two
// seconds, which then extends every lease to its full length plus the second of an election timeout, because it
// cannot know when the last renewal was; it looks for expired leases every half second. The lease is shorter
// than the promise by four seconds, so that a second and a half is left for a slow disk, and for most votes
// that have to be repeated. A TTL of less than 9 seconds has no room for all of that: to survive an election in
// the store a term needs half of it.
func leaseTTL(ttl time.Duration) time.Duration {
	ttl = (ttl + time.Second - 1).Truncate(time.Second)
	return max(ttl-4*time.Second, (ttl/2).Truncate(time.Second)+time.Second)
}

// ownLimit returns how long a holder continues without an answer to its renewals: it stops before its lease can expire.
func ownLimit(ttl time.Duration) time.Duration {
	return min(ttl*2/3, leaseTTL(ttl)-300*time.Millisecond)
}

// Campaign blocks until this process holds the lock, and returns the new term. It continues through outages of
// the store and lost leases; it fails only when ctx ends.
//
// Candidates queue by the revision of their keys, <lock>/<lease>, the layout of etcd's own elections; each
// waits until the one before it disappears.
//
// It is not concurrency.Election of the client library: a session there ends when the store's keep-alives stop
// arriving, counted from the last answer, while a term has to end by the own clock, counted from the sending of
// the last answered renewal, before another process can lead. And it continues with a new lease when one is
// lost in the queue, which the library leaves to the caller.
func (db *DB) Campaign(ctx context.Context, cfg CampaignConfig) (*Term, error) {
	if cfg.Lock == "" || cfg.Value == "" || cfg.TTL < time.Second {
		return nil, fault.New(fault.Invalid, "campaign for lock %q as %q with TTL %s: name, value and at least 1s are required", cfg.Lock, cfg.Value, cfg.TTL)
	}
	log := db.log.WithField("lock", cfg.Lock)
	wait := retry.NewPacer(RetryFirst, RetryMost)
	var trouble logging.Trouble // a repeated error is a warning at intervals
	for {
		term, err := db.campaignOnce(ctx, cfg)
		switch {
		case err == nil:
			log := log.WithField("epoch", term.Epoch())
			log.Info("term begins")
			context.AfterFunc(term.ctx, func() { log.WithError(context.Cause(term.ctx)).Info("term ends") })
			return term, nil
		case ctx.Err() != nil:
			return nil, fault.New(fault.Unavailable, "campaign for lock %q: %w", cfg.Lock, ctx.Err())
		}
		level := logrus.DebugLevel
		if trouble.IsNews(err, time.Now()) {
			level = logrus.WarnLevel
		}
		log.WithError(err).Log(level, "campaign interrupted, standing again")
		wait.Sleep(ctx)
	}
}

// campaignOnce is one candidacy, with one lease.
func (db *DB) campaignOnce(ctx context.Context, cfg CampaignConfig) (*Term, error) {
	history := db.Standing().History
	held, err := db.grant(ctx, leaseTTL(cfg.TTL))
	if err != nil {
		return nil, err
	}
	term := newTerm(db, held, history, cfg)
	if err := term.awaitTurn(ctx); err != nil {
		term.end(err)
		<-term.kept
		return nil, errors.Join(err, term.release())
	}
	for _, key := range []string{term.lock, term.fence} {
		term.Go(func() { term.endWithout(key) })
	}
	return term, nil
}

// awaitTurn writes the candidate's key, waits until it is first in the queue, and confirms that the lease is still
// valid.
func (t *Term) awaitTurn(ctx context.Context) error {
	// The wait is over when the caller gives up or the lease is lost.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()

	rev, err := t.writeCandidate(ctx)
	if err != nil {
		return err
	}
	t.epoch, t.commits.last = rev, rev
	if err := t.queue(ctx); err != nil {
		return errors.Join(context.Cause(t.ctx), err)
	}
	return t.confirm(ctx)
}

// confirmTry is the time limit of one attempt to confirm. The former holder often stops together with its
// member of the store, which then hands its own leadership over and silently drops requests at that moment.
const confirmTry = 300 * time.Millisecond

// confirm writes the lock's value if the candidate's key still exists. A repeated write does no harm.
func (t *Term) confirm(ctx context.Context) error {
	txn := Txn{If: []Guard{t.Fence()}, Puts: []KV{{Key: t.lock, Value: []byte(t.value)}}}
	resp, err := Call(ctx, t.db, "confirm lock", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		for {
			try, cancel := context.WithTimeout(ctx, confirmTry)
			resp, err := c.Txn(try).If(txn.compares()...).Then(txn.ops(clientv3.WithLease(t.lease.id))...).Commit()
			lost := try.Err() != nil
			cancel()
			if err == nil || ctx.Err() != nil || !lost {
				return resp, err
			}
		}
	})
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		return fault.New(fault.NotLeader, "lock %s: candidate key %s is gone", t.lock, t.fence)
	}
	t.won = resp.Header.Revision
	return nil
}

// writeCandidate writes the candidate's key and returns its revision, which is the place in the queue.
func (t *Term) writeCandidate(ctx context.Context) (int64, error) {
	resp, err := Call(ctx, t.db, "enter election", func(ctx context.Context, c *clientv3.Client) (*clientv3.PutResponse, error) {
		return c.Put(ctx, t.fence, t.value, clientv3.WithLease(t.lease.id))
	})
	if err != nil {
		return 0, err
	}
	return resp.Header.Revision, nil
}

// queue returns when no older candidate is left.
func (t *Term) queue(ctx context.Context) error {
	for {
		resp, err := Call(ctx, t.db, "read election", func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
			return c.Get(ctx, t.lock+"/", append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(t.epoch-1))...)
		})
		if err != nil {
			return err
		}
		if len(resp.Kvs) == 0 {
			return nil
		}
		if ahead := resp.Kvs[0]; ahead.Lease == 0 {
			if err := t.db.dropCopied(ctx, string(ahead.Key), ahead.ModRevision); err != nil {
				return err
			}
			continue
		}
		if _, err := t.db.awaitDelete(ctx, string(resp.Kvs[0].Key), resp.Header.Revision+1); err != nil {
			return err
		}
	}
}

// dropCopied deletes a candidate's key without a lease. Nobody campaigns like that: it was copied from another store, as
// etcdctl make-mirror does, and would never go.
func (db *DB) dropCopied(ctx context.Context, key string, rev int64) error {
	db.log.WithField("key", key).Warn("a candidate for the lock has no lease, as keys that were copied from another store: it is deleted")
	_, _, err := db.Txn(ctx, Txn{If: []Guard{AtRevision(key, rev)}, Deletes: []string{key}})
	return err
}

// awaitDelete returns when the key, present before rev, is deleted, and at which revision that was.
func (db *DB) awaitDelete(ctx context.Context, key string, rev int64) (at int64, err error) {
	client, err := db.Client(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range client.Watch(ctx, key, clientv3.WithRev(rev)) { // without filters, which gates refuse
		if err := resp.Err(); err != nil {
			return 0, db.explain("watch "+key, err)
		}
		for _, ev := range resp.Events {
			if ev.Type == clientv3.EventTypeDelete {
				return ev.Kv.ModRevision, nil
			}
		}
	}
	return 0, db.explain("watch "+key, fmt.Errorf("watch ended: %w", context.Cause(ctx)))
}

// LockKey returns the key of a lock's holder. Its directory can be mirrored.
func LockKey(lock string) string { return lockRoot + lock }

// Holder reads the holder of a lock, linearizably; NotFound without a holder.
func (db *DB) Holder(ctx context.Context, lock string) (string, error) {
	kv, err := db.Get(ctx, LockKey(lock))
	if err != nil {
		return "", err
	}
	return string(kv.Value), nil
}
