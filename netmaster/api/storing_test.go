package api

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// storing is a ledger that is storing a large plan, until left more reads have been made.
type storing struct {
	auth.Ledger
	left *atomic.Int64
}

func (s storing) View(read func(ledger.Reader) error) error {
	return s.Ledger.View(func(r ledger.Reader) error { return read(early{r, s.left}) })
}

func (s storing) Preview(ctx context.Context, plan func(*ledger.Tx) error) error {
	if s.left.Add(-1) >= 0 {
		return fault.New(fault.Unavailable, "%w", ledger.ErrStoring)
	}
	return s.Ledger.Preview(ctx, plan)
}

type early struct {
	ledger.Reader
	left *atomic.Int64
}

func (e early) Tag(key string) (int64, error) {
	if e.left.Add(-1) >= 0 {
		return 0, fault.New(fault.Unavailable, "%w", ledger.ErrStoring)
	}
	return e.Reader.Tag(key)
}

// A key put by a large plan has no revision until it is stored. A request for it waits, and gets the final one.
func TestAnEntityTagIsToldWhenItIsKnown(t *testing.T) {
	b := ready(t)
	tag := b.tagged("POST", "netprofiles/blue:gold", profile("gold", 1))
	revision, err := strconv.ParseInt(strings.Trim(tag, `"`), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	left := new(atomic.Int64)
	b.given.Ledger = storing{b.ledger, left}
	for name, ask := range map[string]func(){
		"read": func() {
			if got := b.tagged("GET", "netprofiles/blue:gold", ""); got != tag {
				t.Errorf("read %q, want %q", got, tag)
			}
		},
		"watched": func() {
			if e, ok := b.watchAt("netprofiles/?watch=true").next(); !ok || e.Type != "ADDED" || e.Revision != revision {
				t.Errorf("told %+v, want revision %d", e, revision)
			}
		},
		"tried": func() { b.applying("?dryRun=true", apply("netprofile", profile("gold", 1))) },
	} {
		left.Store(2)
		ask()
		if n := left.Load(); n >= 0 {
			t.Errorf("%s: %d tries too few", name, n+1)
		}
	}
	left.Store(2)
	if got := b.tagged("POST", "netprofiles/blue:gold", profile("gold", 2)); got != "" { // nobody waits for it
		t.Errorf("changed, and told %s", got)
	}
}
