package membership

import (
	"net/http"
	"path"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// HasSecret reports whether the body of a request, or of its answer, has a token or a key.
func HasSecret(r *http.Request) bool {
	at := path.Clean(r.URL.Path)
	return r.Method == http.MethodPost && (at == mastercfg.JoinPath || at == mastercfg.JoinTokensPath)
}

// Confidential refuses joins, and requests for join tokens, on a connection that others can read. A join needs
// TLS in any case: a joining netmaster receives the keys of the CAs.
func Confidential(r *http.Request) error {
	switch {
	case !HasSecret(r):
		return nil
	case path.Clean(r.URL.Path) == mastercfg.JoinPath && r.TLS == nil && identity.From(r.Context()).Kind != identity.Root:
		return fault.New(fault.Denied, "%s %s: to join is possible over https only", r.Method, r.URL.Path)
	}
	return rest.Confidential(r)
}
