package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/objdb/mirror"
)

// In an open cluster a watch checks rights only when it has events to send.
func TestASilentWatchOfAnOpenClusterDoesNotAskForRights(t *testing.T) {
	for caller, want := range map[*auth.Caller]bool{nil: false, {}: true} {
		due, stop := (&watch{caller: caller}).recheckTimer()
		stop()
		if asks := due != nil; asks != want {
			t.Errorf("open cluster %t: asks %t", caller == nil, asks)
		}
	}
	b := ready(t, func(c *Config) { c.Bookmarks = 10 * time.Millisecond })
	w := b.watchAt("rules/?watch=true")
	w.expect("BOOKMARK", "BOOKMARK")
	b.mode(mastercfg.SecurityPermissive)
	for _, ok := w.next(); ok; _, ok = w.next() { // events sent before
	}
}

// looked is a ledger that counts its views.
type looked struct {
	auth.Ledger
	times int
}

func (s *looked) View(read func(ledger.Reader) error) error {
	s.times++
	return s.Ledger.View(read)
}

// Most changes are of objects outside of a watch: they cost it no check of rights. Before it sends anything, a
// bookmark included, it checks, since a client that continues from there does not get earlier changes.
func TestAWatchAsksForRightsBeforeItTellsSomething(t *testing.T) {
	b := ready(t)
	views := &looked{Ledger: b.ledger}
	kind, _ := contivmodel.KindByType("rule")
	prefix := mastercfg.ModelKey("rule", "")
	w := &watch{api: &API{ledger: views}, kind: kind, scope: scope{prefixes: []string{prefix}}}
	out := rest.NewStream(httptest.NewRecorder(), func() error { return nil })
	other := mirror.Change{Key: mastercfg.ModelKey("netprofile", "blue:a"), Revision: 5, Value: []byte("{}")}
	own := mirror.Change{Key: prefix + "blue:p:1", Revision: 6, Value: []byte("{}")}
	for _, c := range []struct {
		changes []mirror.Change
		upTo    int64
		looks   int
	}{{nil, 4, 0}, {[]mirror.Change{other}, 5, 0}, {[]mirror.Change{other, own, other}, 6, 1}} {
		views.times = 0
		if err := w.tell(out, c.changes, c.upTo); err != nil || w.revision != c.upTo || views.times != c.looks {
			t.Errorf("up to %d: it is at %d and has looked %d times, %v; want %d", c.upTo, w.revision, views.times, err, c.looks)
		}
	}
	b.mode(mastercfg.SecurityPermissive)
	if err := w.tell(out, []mirror.Change{other}, 7); err != nil {
		t.Errorf("told nothing: %v", err)
	}
	if err := w.tell(out, []mirror.Change{own}, 8); !errors.Is(err, errOver) || w.revision != 7 {
		t.Errorf("told in another mode: %v, up to %d", err, w.revision)
	}
	if err := w.bookmark(out); !errors.Is(err, errOver) {
		t.Errorf("a bookmark in another mode: %v", err)
	}
}

// A token loses a tenant when the tenant is deleted: a watch with it must list again, as it may no longer see the
// deletion.
func TestAWatchByATokenIsToldThatItsTenantIsGone(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	b.want("proven:root", "DELETE", "networks/red:web", "", 200, "")
	var made shownToken
	if err := json.Unmarshal([]byte(b.want("proven:root", "POST", logins.AuthPath+"/tokens/", `{"name":"ci","role":"viewer","tenants":["blue","red"]}`, 201, "")), &made); err != nil {
		t.Fatal(err)
	}
	w := b.watchAs("tenants/?watch=true", made.Token)
	var last int64
	for range 2 {
		e, ok := w.next()
		if !ok {
			t.Fatal("the watch tells of no tenants")
		}
		last = max(last, e.Revision)
	}
	if e, ok := w.next(); !ok || e.Type != "BOOKMARK" {
		t.Fatalf("%+v %v", e, ok)
	} else {
		last = max(last, e.Revision)
	}
	b.want("proven:root", "DELETE", "tenants/red", "", 200, "")
	for e, ok := w.next(); ok; e, ok = w.next() {
		if e.Type != "BOOKMARK" {
			t.Fatalf("told: %+v", e)
		}
		last = max(last, e.Revision)
	}
	b.want(made.Token, "GET", fmt.Sprintf("/api/v1/tenants/?watch=true&revision=%d", last), "", 500, "may see changed")
}
