package api

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"encoding/json"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

// The hour of a token's last use is recorded, for one write in an hour.
func TestTheLastUseOfATokenIsKept(t *testing.T) {
	const tokens = logins.AuthPath + "/tokens/"
	noon := time.Date(2030, 5, 1, 12, 20, 0, 0, time.UTC)
	var later atomic.Int64
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.Now = func() time.Time { return noon.Add(time.Duration(later.Load())) } })
	texts := map[string]string{}
	for _, name := range []string{"ci", "first", "second"} {
		var made shownToken
		if err := json.Unmarshal([]byte(b.want("proven:root", "POST", tokens, `{"name":"`+name+`","role":"viewer","tenants":["blue"]}`, 201, "")), &made); err != nil {
			t.Fatal(err)
		}
		texts[name] = made.Token
	}
	b.want(texts["ci"]+"x", "GET", "networks", "", 401, "")
	if all := b.want("proven:root", "GET", tokens, "", 200, `"name":"ci"`); strings.Contains(all, "lastUse") {
		t.Errorf("before the first use: %s", all)
	}
	ids := map[string]string{}
	b.plan(func(tx *ledger.Tx) error {
		for name := range texts {
			token, err := access.TokenNamed(tx, name)
			if err != nil {
				return err
			}
			ids[name] = token.ID
		}
		return nil
	})
	// stored returns the recorded hour of a token, and its revision.
	stored := func(name string) (hour int, revision int64) {
		t.Helper()
		if err := b.ledger.View(func(r ledger.Reader) error {
			hour, revision = access.LastUse(r, ids[name]).Hour(), r.Revision(mastercfg.TokenUseKey(ids[name]))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return hour, revision
	}
	show := func(name string) {
		t.Helper()
		b.want(texts[name], "GET", "networks", "", 200, "web")
	}
	used := func(name string, hour int) {
		t.Helper()
		show(name)
		testkit.Eventually(t, time.Minute, "the last use of token "+name, func() bool {
			is, rev := stored(name)
			return is == hour && rev > 0
		})
	}
	used("ci", 12)
	_, before := stored("ci")
	later.Store(int64(39 * time.Minute))
	show("ci")
	used("first", 12) // what came before it is stored by then
	if _, rev := stored("ci"); rev != before {
		t.Errorf("the second use in an hour is written at %d, the first was at %d", rev, before)
	}
	later.Store(int64(40 * time.Minute))
	used("ci", 13)
	b.want("proven:root", "GET", tokens, "", 200, `"lastUse":"2030-05-01T13:00:00Z"`)

	later.Store(0)
	show("ci")
	used("second", 12)
	if hour, _ := stored("ci"); hour != 13 {
		t.Errorf("when the clock goes back the last use becomes %d o'clock", hour)
	}

	b.plan(func(tx *ledger.Tx) error {
		tx.Put(mastercfg.TokenUseKey(ids["ci"]), []byte("damaged"))
		return nil
	})
	b.want("proven:root", "GET", tokens, "", 200, `"name":"ci"`)
	later.Store(int64(2 * time.Hour))
	used("ci", 14)
	b.want("proven:root", "DELETE", tokens+"ci/", "", 204, "")
	if _, rev := stored("ci"); rev != 0 {
		t.Errorf("the use of a token that is gone is kept, of revision %d", rev)
	}
}
