package mastercfg

import (
	"net/url"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// StoreMembersPath is where a netmaster that has joined requests that its member is added to the
// embedded store of the others.
const StoreMembersPath = "/api/v1/store/members"

// AddMemberRequest describes the member. Repeating it changes nothing.
type AddMemberRequest struct {
	Name    string `json:"name"`
	PeerURL string `json:"peerURL"` // https
}

// Check returns an error for what cannot be a member of a store over TLS.
func (r *AddMemberRequest) Check() error {
	if r.Name == "" || len(r.Name) > maxMemberName || strings.ContainsAny(r.Name, "=,") {
		return fault.New(fault.Invalid, "name %.60q: want 1 to %d characters without '=' and ','", r.Name, maxMemberName).WithField("name")
	}
	u, err := url.Parse(r.PeerURL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.Path != "" || len(r.PeerURL) > maxPeerURL {
		return fault.New(fault.Invalid, "peerURL %.60q: want https://host:port", r.PeerURL).WithField("peerURL")
	}
	return nil
}

// Limits of the request.
const (
	maxMemberName = 255
	maxPeerURL    = 1024
)

// AddMemberResponse is what the member needs to start.
type AddMemberResponse struct {
	Peers map[string]string `json:"peers"` // peer URLs of all members by name, this one included
}
