package mirror

import (
	"context"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// The store still has the revision to which it was compacted, and a watch may begin there. A feed that begins
// right before it gets no compaction error.
func TestAFeedBeginsRightBeforeACompaction(t *testing.T) {
	db := testdb.Open(t, objdb.Config{Endpoints: []string{testetcd.New(t)}})
	first := testdb.Put(t, db, watched+"n", "1")
	testdb.Put(t, db, watched+"n", "2")
	testdb.Compact(t, db, first) // 2, and the feed has to reach back to 1
	f := NewFeed(db, watched)
	testetcd.Run(t, func(ctx context.Context) { _ = f.Run(ctx) })
	last := testdb.Put(t, db, watched+"n", "3")
	testkit.Eventually(t, 20*time.Second, "the feed begins", func() bool {
		rev, begun := f.Revision()
		t.Logf("compacted at %d, last %d: the feed is at %d, begun: %t", first, last, rev, begun)
		return begun && rev >= last
	})
}
