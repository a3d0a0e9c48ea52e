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

// The store remembers the revision that it was compacted at, and a watch may begin there. A feed that begins right before it
// hears nothing of a compaction.
func TestAFeedBeginsRightBeforeACompaction(t *testing.T) {
	db := testdb.Open(t, objdb.Config{Endpoints: []string{testetcd.New(t)}})
	first := testdb.Put(t, db, watched+"n", "1")
	testdb.Put(t, db, watched+"n", "2")
	testdb.Compact(t, db, first) // 2, and the feed is to reach back to 1
	f := NewFeed(db, watched)
	testetcd.Run(t, func(ctx context.Context) { _ = f.Run(ctx) })
	last := testdb.Put(t, db, watched+"n", "3")
	testkit.Eventually(t, 20*time.Second, "the feed begins", func() bool {
		rev, begun := f.Revision()
		t.Logf("compacted at %d, last %d: the feed is at %d, begun: %t", first, last, rev, begun)
		return begun && rev >= last
	})
}
