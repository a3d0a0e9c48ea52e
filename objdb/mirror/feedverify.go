package mirror

import (
	"context"
	"fmt"
	"time"
)

// verify checks whether the watch has left out changes, like Mirror.verify. The feed must have the latest
// change of each key that was written since the last verification, and the number of keys must have
// changed by the creations and deletions in the feed.
//
// A feed cannot insert a missing change later. After errGap the caller drops all changes, so that
// the readers start over.
func (f *Feed) verify(ctx context.Context, rev int64) error {
	v := &f.verified
	if rev <= v.rev || time.Now().Before(v.next) {
		return nil
	}
	f.mu.Lock()
	floor, changes := f.floor, f.changes
	f.mu.Unlock()
	after := max(v.rev, floor)
	resp, err := written(ctx, f.db, f.prefix, after, rev)
	if err != nil {
		f.log.WithError(err).Debug("verifying failed")
		return nil
	}
	v.wait(resp.Count)
	last, more := map[string]int64{}, int64(0)
	for _, c := range changes {
		if c.Revision <= after {
			continue
		}
		last[c.Key] = c.Revision
		switch {
		case c.Created:
			more++
		case c.Value == nil:
			more--
		}
	}
	for _, kv := range resp.Kvs {
		if key := string(kv.Key); last[key] != kv.ModRevision {
			return fmt.Errorf("%w: at revision %d the store has key %s of revision %d, we know of %d", errGap, rev, key, kv.ModRevision, last[key])
		}
	}
	if f.keys != unknown && after == v.rev && f.keys+more != resp.Count {
		return fmt.Errorf("%w: at revision %d the store has %d keys, we know of %d", errGap, rev, resp.Count, f.keys+more)
	}
	v.rev, f.keys = rev, resp.Count
	return nil
}

// unknown is the value of Feed.keys when the number is not known.
const unknown = -1
