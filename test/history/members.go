package history

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/test/testkit"
)

// comparingTime is how long members may take to reach the newest revision.
const comparingTime = 30 * time.Second

// Diverged returns the members of the store whose history differs from the first one's.
func (c *Cluster) Diverged(ctx context.Context, store *clientv3.Client) (found []string) {
	ctx, cancel := context.WithTimeout(ctx, comparingTime)
	defer cancel()
	newest, err := store.Get(ctx, lastKey)
	if err != nil {
		return []string{err.Error()}
	}
	rev := newest.Header.Revision
	err = testkit.Poll(ctx, func() error {
		found = nil
		var first *clientv3.HashKVResponse
		for _, url := range c.Stores() {
			hash, err := store.HashKV(ctx, url, rev)
			switch {
			case err != nil: // it may be behind
				return fmt.Errorf("%s: %w", url, err)
			case first == nil:
				first = hash
			case hash.CompactRevision != first.CompactRevision:
				return fmt.Errorf("%s has forgotten what was before revision %d, the first what was before %d: they cannot be compared", url, hash.CompactRevision, first.CompactRevision)
			case hash.Hash != first.Hash:
				found = append(found, fmt.Sprintf("%s has hash %d at revision %d, the first has %d", url, hash.Hash, rev, first.Hash))
			}
		}
		return nil
	})
	if err != nil {
		found = append(found, err.Error())
	}
	return found
}
