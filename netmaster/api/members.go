package api

import (
	"net/http"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// mastersOnly refuses everybody but a netmaster over TLS, whatever the mode, before a body is read.
func mastersOnly(what string, serve answer) answer {
	return func(r *http.Request) (reply, error) {
		if who := identity.From(r.Context()); who.Kind != identity.Master || r.TLS == nil {
			return reply{}, denial{error: fault.New(fault.Denied, "%s: for netmasters, over TLS; this is %s", what, who), code: http.StatusForbidden}
		}
		return serve(r)
	}
}

// addMember has the store of the netmasters expect the member of another one. It has no vote
// until it has caught up, so that one that never comes does no harm.
func (a *API) addMember(r *http.Request, request *mastercfg.AddMemberRequest) (reply, error) {
	if a.config.AddMember == nil {
		return reply{}, fault.New(fault.Mode, "the store of this cluster is not one that netmasters embed with https peer URLs: nobody is added to it")
	}
	peers, err := a.config.AddMember(r.Context(), request.Name, request.PeerURL)
	return reply{body: mastercfg.AddMemberResponse{Peers: peers}}, err
}
