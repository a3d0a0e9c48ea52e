package api

import (
	"net/http"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/membership"
	"github.com/contiv/netplugin/netmaster/api/rest"
)

// Confidential refuses a request in which, or in the answer to which, there is a token
// or a password, on a connection that others can read. A netmaster that passes requests on asks
// this too: the leader sees the connection between the two only.
func Confidential(r *http.Request) error {
	if logins.HasSecret(r) {
		return rest.Confidential(r)
	}
	return membership.Confidential(r)
}

// HasSecret tells whether a request has a token or a password in its body or in that of its answer, or shows a token. In a
// cluster that is open there are none: what is shown there is for somebody else, or of another cluster, and always went on.
func HasSecret(r *http.Request, open bool) bool {
	shows := r.Header.Get(auth.TokenHeader) != "" || r.Header.Get("Authorization") != ""
	return shows && !open || logins.HasSecret(r) || membership.HasSecret(r)
}
