package membership

import (
	"net/http"
	"path"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// HasSecret tells whether there is a token, or a key, in the body of a request or of its answer.
func HasSecret(r *http.Request) bool {
	at := path.Clean(r.URL.Path)
	return r.Method == http.MethodPost && (at == mastercfg.JoinPath || at == mastercfg.JoinTokensPath)
}

// Confidential refuses to let anybody join, or to make a token for that, on a connection that others can read. To join takes TLS
// in any case: a netmaster that joins is given the keys of the authorities.
func Confidential(r *http.Request) error {
	switch {
	case !HasSecret(r):
		return nil
	case path.Clean(r.URL.Path) == mastercfg.JoinPath && r.TLS == nil && identity.From(r.Context()).Kind != identity.Root:
		return fault.New(fault.Denied, "%s %s: to join is possible over https only", r.Method, r.URL.Path)
	}
	return rest.Confidential(r)
}
