package mirror

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb"
)

// For each verification the store reads the whole prefix. The time between two
// verifications is verifyPause, or longer for many keys: a few hundred agents
// take a few percent of one core of the store, whatever its size.
const (
	verifyPause  = 5 * time.Minute
	verifyPerKey = 30 * time.Millisecond
)

// verified is the state of the verification of a mirror or feed.
type verified struct {
	rev  int64     // the state at this revision came from a listing or was compared with the store
	next time.Time // no comparison before this time
}

// wait sets the time of the next verification, by the number of keys of the prefix.
func (v *verified) wait(keys int64) {
	v.next = time.Now().Add(max(verifyPause, time.Duration(keys)*verifyPerKey))
}

// written reads, at revision at (0: now), the keys below a prefix that were written after a revision,
// without values. Count in the response is the number of all keys below the prefix.
func written(ctx context.Context, db *objdb.DB, prefix string, after, at int64) (*clientv3.GetResponse, error) {
	return objdb.Call(ctx, db, "verify "+prefix, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
		return c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithRev(at), clientv3.WithMinModRev(after+1))
	})
}

// verify checks whether the watch has left out events; if so, it returns errGap. It is called for a
// progress notification: the watch has delivered all events up to revision rev, so the receiver's state
// must equal the store's at rev.
//
// It reads the keys that were written since the last verification and the number of all keys.
// Missing writes show in the first, missing deletions in the second; a mirror of NewPart
// cannot check the second. If the store's revision has not changed, nothing is
// read. A prefix without events is read: all of its events may have been left out.
//
// Errors of the read are ignored; the next notification is the next try. The read must not be
// serializable: the response of a member that lags would look like a store that was restored to
// an older revision.
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
