package api

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"encoding/json"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

// Of a token it is known in which hour it was last used, for one write in an hour.
func TestTheLastUseOfATokenIsKept(t *testing.T) {
	const tokens = AuthPath + "/tokens/"
	noon := time.Date(2030, 5, 1, 12, 20, 0, 0, time.UTC)
	var later atomic.Int64
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.Now = func() time.Time { return noon.Add(time.Duration(later.Load())) } })
	var made tokenForm
	if err := json.Unmarshal([]byte(b.want("proven:root", "POST", tokens, `{"name":"ci","role":"viewer","tenants":["blue"]}`, 201, "")), &made); err != nil {
		t.Fatal(err)
	}
	if all := b.want("proven:root", "GET", tokens, "", 200, `"name":"ci"`); strings.Contains(all, "lastUse") {
		t.Errorf("before its first use: %s", all)
	}
	// uses is the revision of what is stored of uses; 0: nothing is.
	uses := func() (revision int64) {
		if err := b.ledger.View(func(r ledger.Reader) error {
			r.Range(mastercfg.TokenUsePrefix, func(key string, _ []byte) bool {
				revision = r.Revision(key)
				return true
			})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return revision
	}
	used := func(hour int) {
		t.Helper()
		b.want(made.Token, "GET", "networks", "", 200, "web")
		testkit.Eventually(t, time.Minute, "the last use of the token", func() bool {
			return strings.Contains(b.want("proven:root", "GET", tokens, "", 200, `"name":"ci"`), fmt.Sprintf(`"lastUse":"2030-05-01T%d:00:00Z"`, hour))
		})
	}
	used(12)
	first := uses()
	later.Store(int64(39 * time.Minute))
	used(12)
	if now := uses(); now != first {
		t.Errorf("the second use in an hour is written at %d, the first was at %d", now, first)
	}
	later.Store(int64(40 * time.Minute))
	used(13)
	later.Store(0) // the clock goes back
	b.want(made.Token, "GET", "networks", "", 200, "web")
	b.want(made.Token+"x", "GET", "networks", "", 401, "")
	b.want("proven:root", "DELETE", tokens+"ci/", "", 204, "")
	if rev := uses(); rev != 0 {
		t.Errorf("the use of a token that is gone is kept, of revision %d", rev)
	}
}
