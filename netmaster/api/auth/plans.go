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

// The checks of callers in plans of objects: the methods of
// objects.Caller. A permissive cluster only records refusals.

func (c *Caller) String() string { return c.Who.String() }

// OfTenants reports whether the caller may change objects of tenants only.
func (c *Caller) OfTenants(r ledger.Reader) (bool, error) {
	set, err := access.Rights(r, c.Who, c.now())
	if errors.Is(err, access.ErrNobody) {
		return false, nil // the request was authorized by the record, which is gone now
	}
	return !set.May(rights.Change, rights.Cluster, ""), err
}

// Deny returns the refusal of something that the caller has no right to.
func (c *Caller) Deny(format string, args ...any) error {
	return c.refuse(rest.Denial{Cause: fault.New(fault.Denied, format, args...), Status: http.StatusForbidden})
}

// Exceed returns the refusal of something that exceeds a bound.
func (c *Caller) Exceed(format string, args ...any) error {
	return c.refuse(fault.New(fault.Exhausted, format, args...))
}

// refuse returns a refusal, or records it in a cluster that is permissive in the plan's state.
func (c *Caller) refuse(refusal error) error {
	if c.mode == mastercfg.SecurityPermissive && !c.closed.Load() {
		c.note(refusal)
		return nil
	}
	return refusal
}
