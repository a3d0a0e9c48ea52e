package auth

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// A client without an identity shares the budget of its address: that of the connection, or the one that an
// authenticated netmaster forwards.
func TestWhoseShareALongAnswerCountsIn(t *testing.T) {
	const far = "10.1.1.1:40000"
	ann, master := identity.Identity{Kind: identity.User, Name: "ann"}, identity.Identity{Kind: identity.Master, Name: "m1"}
	for name, c := range map[string]struct {
		mode   mastercfg.SecurityMode
		who    identity.Identity
		from   string
		header string // set by a netmaster that forwards a request
		want   string
	}{
		"an address":                    {from: far, want: "nobody at 10.1.1.1"},
		"an address of IPv6":            {from: "[2001:db8::1]:40000", want: "nobody at 2001:db8::/64"},
		"who says that he passes it on": {from: far, header: "10.2.2.2:9999", want: "nobody at 10.1.1.1"},
		"who shows a certificate":       {who: ann, from: far, want: "user/ann"},
		"a netmaster":                   {who: master, from: far},
		"a netmaster that says no more": {who: master, from: far, header: "10.2.2.2:9999", want: "nobody at 10.1.1.1"},
		"root":                          {who: identity.Identity{Kind: identity.Root}, from: "@"},
		"the machine itself":            {from: "127.0.0.1:40000"},
		"the machine itself, by IPv6":   {from: "[::1]:40000"},
		"permissive, an address":        {mode: mastercfg.SecurityPermissive, from: far, want: "nobody at 10.1.1.1"},
		"permissive, somebody":          {mode: mastercfg.SecurityPermissive, who: ann, from: far, want: "user/ann"},
		"permissive, a netmaster":       {mode: mastercfg.SecurityPermissive, who: master, from: far},
		"enforced, somebody":            {mode: mastercfg.SecurityEnforced, who: ann, from: far, want: "user/ann"},
	} {
		r := httptest.NewRequest("GET", "/api/v1/networks/", nil)
		r.RemoteAddr = c.from
		r.Header.Set("X-Forwarded-For", "10.9.9.9") // the daemon takes it away; here it must not matter
		if c.header != "" {
			r.Header.Set(mastercfg.ForwardedHeader, c.header)
		}
		ctx := identity.With(r.Context(), c.who)
		if c.mode != "" {
			ctx = context.WithValue(ctx, callerKey{}, &Caller{Who: c.who, mode: c.mode, source: rest.SourceOf(r)})
		}
		if got := BudgetKey(r.WithContext(ctx)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
