package auth

import (
	"errors"
	"net/http"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// What the plans of objects ask about their caller: these are the methods of objects.Caller. What would be refused in a
// permissive cluster is noted only.

func (q *Caller) String() string { return q.Who.String() }

// OfTenants tells whether the caller may not change what is outside of tenants.
func (q *Caller) OfTenants(r ledger.Reader) (bool, error) {
	set, err := access.Rights(r, q.Who, q.now())
	if errors.Is(err, access.ErrNobody) {
		return false, nil // which the request was judged by
	}
	return !set.May(rights.Change, rights.Cluster, ""), err
}

// Deny is a refusal of what the caller may not.
func (q *Caller) Deny(format string, args ...any) error {
	return q.refuse(rest.Denial{Cause: fault.New(fault.Denied, format, args...), Status: http.StatusForbidden})
}

// Exceed is a refusal of what is beyond a bound.
func (q *Caller) Exceed(format string, args ...any) error {
	return q.refuse(fault.New(fault.Exhausted, format, args...))
}

// refuse returns a refusal, or notes it.
func (q *Caller) refuse(refusal error) error {
	if q.mode == mastercfg.SecurityPermissive {
		q.note(refusal)
		return nil
	}
	return refusal
}
