package auth

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
)

// A request that a permissive cluster has admitted is refused, in plans and answers, once the cluster is enforced.
func TestARequestFromBeforeTheClusterWasEnforced(t *testing.T) {
	now := state{records: map[string]string{mastercfg.SecurityKey: `{"mode":"permissive"}`}}
	e := New(Config{Now: time.Now, View: func(read func(ledger.Reader) error) error { return read(now) }})
	r, err := e.Enter(httptest.NewRequest("POST", "/api/v1/networks/blue:web", nil))
	if err != nil {
		t.Fatal(err)
	}
	q := CallerFrom(r.Context())
	q.Require(Need{rights.Change, rights.Objects, "blue"})
	check := func(mode string, refused bool) {
		t.Helper()
		now.records[mastercfg.SecurityKey] = `{"mode":"` + mode + `"}`
		if err := q.Still(now); errors.Is(err, access.ErrNobody) != refused {
			t.Errorf("%s: %v", mode, err)
		}
		if _, all, err := q.Visible(now, rights.Objects); all == refused || errors.Is(err, access.ErrNobody) != refused {
			t.Errorf("%s: it sees all: %t, %v", mode, all, err)
		}
		if q.May(now, Need{rights.Read, rights.Operations, ""}) == refused {
			t.Errorf("%s: it may read what is the operators': %t", mode, !refused)
		}
	}
	check("permissive", false)
	if err := q.Deny("what belongs to others"); err != nil {
		t.Errorf("permissive: %v", err)
	}
	check("enforced", true)
	if err := q.Deny("what belongs to others"); err == nil {
		t.Error("enforced: what a plan denies is only noted")
	}
	check("permissive", false)
	now.records[mastercfg.SecurityKey] = "{"
	if _, all, err := q.Visible(now, rights.Objects); q.Still(now) == nil || q.May(now, q.need) || all || err == nil {
		t.Error("what is not readable is taken for permissive")
	}
}

// state is a snapshot with some records.
type state struct {
	ledger.Reader
	records map[string]string
}

func (s state) Get(key string) ([]byte, bool) {
	value, there := s.records[key]
	return []byte(value), there
}

// A netmaster says for whom it forwards a request. Once it is removed, that counts for nothing in a watch or a plan
// that began before: whoever has its machine may have said that root asks.
func TestARemovedNetmasterIsNotBelievedAnyMore(t *testing.T) {
	now := state{records: map[string]string{mastercfg.SecurityKey: `{"mode":"enforced"}`}}
	e := New(Config{Now: time.Now, View: func(read func(ledger.Reader) error) error { return read(now) }})
	enter := func(by string) *Caller {
		t.Helper()
		r := httptest.NewRequest("GET", "/api/v1/networks/?watch=true", nil)
		r = r.WithContext(identity.With(r.Context(), identity.Identity{Kind: identity.Root}))
		if by != "" {
			r = rest.ForwardedBy(r, by)
		}
		r, err := e.Enter(r)
		if err != nil {
			t.Fatal(err)
		}
		q := CallerFrom(r.Context())
		q.Require(Need{rights.Change, rights.Access, ""})
		return q
	}
	own, first, second := enter(""), enter("m1"), enter("m2")
	for _, q := range []*Caller{own, first, second} {
		if err := q.Still(now); err != nil {
			t.Errorf("forwarded by %q: %v", q.via, err)
		}
	}
	now.records[mastercfg.RemovedMasterPrefix+"m2"] = "{}"
	for _, q := range []*Caller{own, first} {
		if err := q.Still(now); err != nil {
			t.Errorf("forwarded by %q, and m2 is removed: %v", q.via, err)
		}
	}
	if err := second.Still(now); !errors.Is(err, access.ErrNobody) {
		t.Errorf("forwarded by m2, which is removed: %v", err)
	}
	if set, err := second.Rights(now); len(set) > 0 || !errors.Is(err, access.ErrNobody) { // by which roles are granted
		t.Errorf("forwarded by m2, which is removed: %s, %v", set, err)
	}
}
