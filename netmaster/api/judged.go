package api

import (
	"net/http"

	"github.com/contiv/netplugin/utils/fault"
)

// confirmLed checks, before a response is sent, that this netmaster still led when it was computed. It returns
// err or, if the term has ended, that error: reads, and the reasons of refusals, are valid only while no other
// netmaster can have led. A committed change is reported as such in any case, and one with an unknown outcome
// remains unknown. For a plan without changes the ledger has made this check already.
func (a *API) confirmLed(r *http.Request, err error) error {
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
	if err == nil && !isRead || fault.Is(err, fault.Unavailable) || fault.Is(err, fault.NotLeader) {
		return err
	}
	if over := a.config.Trusted(); over != nil {
		return over
	}
	return err
}
