package objdb

import (
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// A member that runs without the other two knows only its own state, which may be old.
func TestAMemberWithoutAQuorumMeasuresNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	members := testetcd.NewMembers(t, 3, 0)
	db := open(t, Config{Endpoints: members[0].ClientURLs(), RequestTimeout: 2 * time.Second})
	testkit.Eventually(t, time.Minute, "the store takes many operations", func() bool {
		n, err := db.MaxOps(t.Context())
		return err == nil && n == ManyOps
	})
	testetcd.Stop(t, members[1])
	testetcd.Stop(t, members[2])
	if n, err := db.MaxOps(t.Context()); err == nil {
		t.Errorf("a member alone was taken for the store, which takes %d operations", n)
	}
}
