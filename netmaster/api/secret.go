package api

import (
	"net/http"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/membership"
	"github.com/contiv/netplugin/netmaster/api/rest"
)

// Confidential refuses a request with a token or a password, in the request or the
// answer, on a connection that others can read. A netmaster that forwards requests
// checks this as well: the leader sees only the connection between the two.
func Confidential(r *http.Request) error {
	if logins.HasSecret(r) {
		return rest.Confidential(r)
	}
	return membership.Confidential(r)
}

// HasSecret reports whether a request has a token or a password in its body or its answer, or presents a token. In an
// open cluster presented tokens do not count: they belong to another server or cluster, and were always forwarded.
func HasSecret(r *http.Request, open bool) bool {
	shows := r.Header.Get(auth.TokenHeader) != "" || r.Header.Get("Authorization") != ""
	return shows && !open || logins.HasSecret(r) || membership.HasSecret(r)
}
