package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
)

// warnings returns what the sender of accepted objects is told besides the answer: what exposed has returned about
// them, and what concerns their nodes; empty: nothing.
func (a *API) warnings(ctx context.Context, exposed string, sent ...contivmodel.Object) string {
	unspoken := a.unspoken(ctx, sent...)
	if exposed != "" && unspoken != "" {
		return exposed + "; " + unspoken
	}
	return exposed + unspoken
}

// exposed returns a warning if the client has sent a secret of an object, such as the password of a BGP
// session, over a connection that others can read; otherwise it is empty. The request is accepted: clients of
// an open cluster use plain HTTP only, and a permissive cluster refuses no request for this. The log has the
// warning as well, and so has the report of a permissive cluster.
func (a *API) exposed(r *http.Request, sent ...contivmodel.Object) (warning string) {
	if rest.Private(r) {
		return ""
	}
	var found []string
	for _, o := range sent {
		if names := contivmodel.SecretsIn(o); len(names) > 0 {
			found = append(found, fmt.Sprintf("%s of %s %s", strings.Join(names, ", "), o.ModelType(), o.ModelKey()))
		}
	}
	if len(found) == 0 {
		return ""
	}
	what := found[0]
	if more := len(found) - 1; more > 0 {
		what = fmt.Sprintf("%s, and %d more", what, more)
	}
	warning = what + " came over plain HTTP, where others can read it: send another one over https, or on the machine of a netmaster"
	a.config.Log.WithField("source", rest.SourceOf(r)).Warn(warning)
	if caller := auth.CallerFrom(r.Context()); caller != nil {
		caller.Exposes(what + " came over plain HTTP")
	}
	return warning
}
