package api

import (
	"net/http"
	"path"
	"strings"

	"github.com/contiv/netplugin/netmaster/api/asking"
	"github.com/contiv/netplugin/netmaster/api/membership"
	"github.com/contiv/netplugin/netmaster/api/rest"
)

// Confidential refuses a request in which, or in the answer to which, there is a token
// or a password, on a connection that others can read. A netmaster that passes requests on asks
// this too: the leader sees the connection between the two only.
func Confidential(r *http.Request) error {
	if hasSecret(r) {
		return rest.Confidential(r)
	}
	return membership.Confidential(r)
}

// HasSecret tells whether a request has a token or a password in its body or in that of its answer, or shows a token. In a
// cluster that is open there are none: what is shown there is for somebody else, or of another cluster, and always went on.
func HasSecret(r *http.Request, open bool) bool {
	shows := r.Header.Get(asking.TokenHeader) != "" || r.Header.Get("Authorization") != ""
	return shows && !open || hasSecret(r) || membership.HasSecret(r)
}

// hasSecret tells whether there is a secret in the body of a request about accounts, or of its answer.
func hasSecret(r *http.Request) bool {
	switch at := path.Clean(r.URL.Path); at {
	case loginPath, openIDLoginPath, usersPath, tokensPath:
		return r.Method == http.MethodPost
	case directoryPath, providerPath:
		return r.Method == http.MethodPut || r.Method == http.MethodPatch
	default:
		return r.Method == http.MethodPatch && strings.HasPrefix(at, usersPath+"/")
	}
}
