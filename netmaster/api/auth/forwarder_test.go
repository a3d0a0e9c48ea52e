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
}
