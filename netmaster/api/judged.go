package api

import (
	"net/http"

	"github.com/contiv/netplugin/utils/fault"
)

// judged is the error of a request that has been dealt with, err, or why the term
// is over, if that spoils the answer. What was read, and why something was refused, is only
// known while nobody else can have led. A change that was committed has happened in any
// case, and one with unknown outcome remains that. Of a plan that changed nothing the ledger
// has judged.
func (a *API) judged(r *http.Request, err error) error {
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
	if err == nil && !isRead || fault.Is(err, fault.Unavailable) || fault.Is(err, fault.NotLeader) {
		return err
	}
	if over := a.config.Trusted(); over != nil {
		return over
	}
	return err
}
