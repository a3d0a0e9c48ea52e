package mastercfg

import (
	"net/url"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// StoreMembersPath is where a netmaster that has joined asks for its member to be added to the store
// that the others embed.
const StoreMembersPath = "/api/v1/store/members"

// AddMemberRequest describes the member. Repeating it changes nothing.
type AddMemberRequest struct {
	Name    string `json:"name"`
	PeerURL string `json:"peerURL"` // https
}

// Check refuses what is no member of a store over TLS.
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

// Bounds of what is asked for.
const (
	maxMemberName = 255
	maxPeerURL    = 1024
)

// AddMemberResponse is what the member starts with.
type AddMemberResponse struct {
	Peers map[string]string `json:"peers"` // peer URLs of all members by name, this one included
}
