package mirror

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb"
)

// For each verification the store reads the whole prefix. Between two of them is
// at least verifyPause, and longer for many keys: some hundred agents that verify
// take a few percent of a core of the store, whatever its size.
const (
	verifyPause  = 5 * time.Minute
	verifyPerKey = 30 * time.Millisecond
)

// verified is how far a mirror is known to be right.
type verified struct {
	rev  int64     // the state at this revision came from a listing or was compared with the store
	next time.Time // when to compare again, at the earliest
}

// wait puts the next verification off, after one of a prefix with so many keys.
func (v *verified) wait(keys int64) {
	v.next = time.Now().Add(max(verifyPause, time.Duration(keys)*verifyPerKey))
}

// written asks for the keys below a prefix that were written after a revision, as they
// were at a later one (0: now) and without values, and for the number of all keys then.
func written(ctx context.Context, db *objdb.DB, prefix string, after, at int64) (*clientv3.GetResponse, error) {
	return objdb.Call(ctx, db, "verify "+prefix, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
		return c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithRev(at), clientv3.WithMinModRev(after+1))
	})
}

// verify finds out whether the watch has left out events. It is called when the
// store has told that there are no more up to a revision: what the receiver has
// must be what the store had then. The store sends the keys that were written
// since the last verification, without their values, and the number of all.
// Deletions that were left out are found by that number; the mirror of a part
// does not know it and finds writes only. A store that does not change is not
// read; of a prefix that does not, it is not known: all of its events may have
// been left out.
//
// The error is errGap when events are missing. Other failures say nothing about
// the mirror; the next notification leads to the next try. The read must not be
// serializable: the answer of a member that is behind would look like a store
// that went back.
func (m *Mirror) verify(ctx context.Context, rev int64) error {
	if rev <= m.verified.rev || time.Now().Before(m.verified.next) {
		return nil
	}
	resp, err := written(ctx, m.db, m.prefix, m.verified.rev, rev)
	if err != nil {
		m.log.WithError(err).Debug("verifying failed")
		return nil
	}
	m.verified.wait(resp.Count)
	for _, kv := range resp.Kvs {
		key := string(kv.Key)
		if had := m.held[key]; m.wants(key) && had != kv.ModRevision {
			return fmt.Errorf("%w: at revision %d the store has key %s of revision %d, we have %d", errGap, rev, key, kv.ModRevision, had)
		}
	}
	if have := int64(len(m.held)); m.wanted == nil && have != resp.Count {
		return fmt.Errorf("%w: at revision %d the store has %d keys, we have %d", errGap, rev, resp.Count, have)
	}
	m.verified.rev = rev
	return nil
}
