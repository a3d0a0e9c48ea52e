package objdb

import (
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// The store works with two of three members, and those tell how full they are.
func TestAMemberThatIsDownDoesNotHideTheSpaceOfTheOthers(t *testing.T) {
	t.Parallel() // it mostly waits
	members := testetcd.NewMembers(t, 3, 0)
	db := open(t, Config{Endpoints: members[0].ClientURLs(), RequestTimeout: 2 * time.Second})
	testetcd.Stop(t, members[2])
	testkit.Eventually(t, time.Minute, "two members tell", func() bool {
		all, err := db.Space(t.Context())
		return err != nil && len(all) == 2
	})
}
