package auth

import (
	"net/http"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// TokenHeader is the token header of the original's authenticating proxy.
const TokenHeader = "X-Auth-Token"

// shownBy returns the identity that a request presents: that of the connection, or of a token.
func shownBy(r *http.Request, reader ledger.Reader) (identity.Identity, error) {
	who := identity.From(r.Context())
	if rest.Forwarded(r, who) {
		who = identity.Identity{}
	}
	tokens := slices.Clone(r.Header.Values(TokenHeader))
	for _, value := range r.Header.Values("Authorization") {
		scheme, token, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return who, rest.Denial{Cause: fault.New(fault.Denied, "Authorization: want Bearer and a token"), Status: http.StatusUnauthorized}
		}
		tokens = append(tokens, strings.TrimSpace(token))
	}
	if tokens = slices.Compact(tokens); len(tokens) > 0 && who.Kind == identity.Loopback {
		who = identity.Identity{} // stronger credentials have precedence
	}
	switch {
	case len(tokens) == 0:
		return who, nil
	case !rest.Private(r):
		return who, rest.Denial{Cause: fault.New(fault.Denied, "tokens are taken over https only, or on the machine of a netmaster"), Status: http.StatusUnauthorized}
	case len(tokens) > 1 || who.Kind != identity.Nobody:
		return who, rest.Denial{Cause: fault.New(fault.Malformed, "two identities at once: want one token, or one certificate"), Status: http.StatusBadRequest}
	}
	return access.Recognize(reader, tokens[0])
}
