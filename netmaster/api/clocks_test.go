package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

const day = 24 * time.Hour

// A leader whose clock is ahead treats valid credentials as expired, but removes none: its successors accept
// earlier ones.
func TestALeaderWhoseClockIsAheadEndsNothingForGood(t *testing.T) {
	b, ahead := proxied(t)
	const users = logins.AuthPath + "/local_users/"
	b.want("proven:root", "POST", users, `{"username":"ann","password":"`+goodPassword+`"}`, 201, "")
	b.certified("ann", time.Now().Add(time.Hour))
	before := b.login("ann", goodPassword)

	ahead.Store(int64(day))
	b.want(before, "GET", "tenants", "", 401, "")
	b.want("proven:user/ann", "GET", "tenants", "", 401, "")
	meanwhile := b.login("ann", goodPassword)
	b.plan(func(tx *ledger.Tx) error {
		return access.KeepCertificate(tx, mastercfg.UserCertificate{User: "ann", Key: "another", Created: time.Now().Add(day), Expires: time.Now().Add(2 * day)})
	})
	if err := access.Forget(t.Context(), b.ledger, time.Now().Add(6*day)); err != nil {
		t.Fatal(err)
	}

	ahead.Store(0)
	b.want(before, "GET", "tenants", "", 200, "")
	b.want("proven:user/ann", "GET", "tenants", "", 200, "")
	b.want(meanwhile, "GET", "tenants", "", 200, "")
}

// Credentials of a leader whose clock is far ahead expire years later by the others' clocks, and are not valid for
// them.
func TestWhatAClockFarAheadHasGivenOutDoesNotCount(t *testing.T) {
	b, ahead := proxied(t)
	const users = logins.AuthPath + "/local_users/"
	b.want("proven:root", "POST", users, `{"username":"ann","password":"`+goodPassword+`"}`, 201, "")
	ahead.Store(int64(1000 * day))
	session := b.login("ann", goodPassword)
	var token, foreign string
	b.plan(func(tx *ledger.Tx) (err error) {
		now := time.Now().Add(1000 * day)
		if _, token, err = access.CreateToken(tx, access.NewToken{Name: "ci", Role: rights.Viewer, Tenants: []string{"*"}, Life: accounts.DefaultTokenLife}, now); err != nil {
			return err
		}
		made, err := access.LoginForeign(tx, "eve", []string{"group"}, now)
		foreign = made.Text
		return err
	})
	b.certifiedAt("ann", time.Now().Add(1000*day), time.Now().Add(1001*day))
	all := map[string]string{"session": session, "session of a directory": foreign, "token": token, "certificate": "proven:user/ann"}
	for from, code := range map[time.Duration]int{1000 * day: 200, 999*day - time.Minute: 401, 0: 401} {
		ahead.Store(int64(from))
		for what, shown := range all {
			if got, answer, _ := b.as(shown, "GET", "tenants", ""); got != code {
				t.Errorf("%s, %s ahead: %d, want %d: %s", what, from, got, code, answer)
			}
		}
	}
}

// The last use of a token recorded with a clock far ahead is replaced by the next one: otherwise the list of
// tokens would show no use until that time.
func TestTheLastUseByAClockFarAheadGivesWay(t *testing.T) {
	b, ahead := proxied(t)
	var token string
	var id string
	b.plan(func(tx *ledger.Tx) error {
		made, text, err := access.CreateToken(tx, access.NewToken{Name: "ci", Role: rights.Viewer, Tenants: []string{"*"}, Life: accounts.LongestTokenLife}, time.Now())
		token, id = text, made.ID
		return err
	})
	for _, from := range []time.Duration{300 * day, 0, -20 * time.Hour} {
		ahead.Store(int64(from))
		want := access.HourOf(time.Now().Add(max(from, 0))) // a clock that is slightly behind changes nothing
		b.want(token, "GET", "tenants", "", 200, "")
		testkit.Eventually(t, 10*time.Second, "the last use is stored", func() bool {
			var last time.Time
			return b.ledger.View(func(r ledger.Reader) error { last = access.LastUse(r, id); return nil }) == nil && last.Sub(want).Abs() <= time.Hour
		})
	}
}

// A user has a hundred sessions at most, including expired ones: those that are not valid make room first.
func TestWhatDoesNotCountMakesRoomFirst(t *testing.T) {
	b, _ := proxied(t)
	now := time.Now()
	at := func(when time.Time) (id string) {
		b.plan(func(tx *ledger.Tx) error {
			made, err := access.LoginForeign(tx, "eve", nil, when)
			id = made.ID
			return err
		})
		return id
	}
	oldest, ended, ahead := at(now.Add(-9*time.Hour)), at(now.Add(-11*time.Hour)), at(now.Add(1000*day))
	for range 97 {
		at(now)
	}
	there := func(ids ...string) (which string) {
		if err := b.ledger.View(func(r ledger.Reader) error {
			for _, id := range ids {
				_, is := r.Get(mastercfg.SessionKey(id))
				which += fmt.Sprintf("%t ", is)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return which
	}
	for _, want := range []string{"true true true ", "true false true ", "true false false ", "false false false "} {
		if got := there(oldest, ended, ahead); got != want {
			t.Errorf("the oldest, one that has ended and one of a clock ahead are there: %s, want %s", got, want)
		}
		at(now)
	}
}
