package mastercfg

import "time"

// Who has joined, and the tokens to do so.
const (
	NodePrefix      = StateRoot + "nodes/"    // agents read which nodes there are
	MasterPrefix    = AccessRoot + "masters/" // netmasters
	JoinTokenPrefix = AccessRoot + "joinTokens/"
)

// Joined is a node or a netmaster that has joined the cluster: its name belongs to its key.
type Joined struct {
	Host      string    `json:"host"`
	Key       string    `json:"key"`       // hash of its public key; empty: the next to join may have the name
	Addresses []string  `json:"addresses"` // as it said
	VTEPs     []string  `json:"vteps,omitempty"`
	Tenants   []string  `json:"tenants,omitempty"` // that it may serve; none: all
	Token     string    `json:"token"`             // id of the token that it showed
	Joined    time.Time `json:"joined"`
	Expires   time.Time `json:"expires"` // end of the last certificate
}

// JoinToken is what lets nodes or netmasters join. Its secret is not in it.
type JoinToken struct {
	ID      string    `json:"id"`
	Role    string    `json:"role"`              // node or master
	Digest  string    `json:"digest,omitempty"`  // SHA-256 of the secret; not in answers
	Host    string    `json:"host"`              // pattern of the names that may join
	Tenants []string  `json:"tenants,omitempty"` // that the nodes may serve; none: all
	Uses    int       `json:"uses"`              // how many may join; 0: without limit
	Used    int       `json:"used"`              // how many have
	Creator string    `json:"creator"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// Paths of joining.
const (
	JoinPath       = "/api/v1/join"
	RenewPath      = "/api/v1/renew"
	AuthorityPath  = "/api/v1/ca"
	JoinTokensPath = "/api/v1/joinTokens"
	NodesPath      = "/api/v1/nodes"
)

// JoinRequest asks to become a node or a netmaster of the cluster.
type JoinRequest struct {
	Token     string   `json:"token"`
	Host      string   `json:"host"`
	CSR       []byte   `json:"csr"` // a certificate request for the own key, DER
	Addresses []string `json:"addresses"`
	VTEPs     []string `json:"vteps"`
}

// RenewRequest asks for another certificate for the key that has joined.
type RenewRequest struct {
	Host string `json:"host"`
	CSR  []byte `json:"csr"`
}

// JoinResponse is the answer to both.
type JoinResponse struct {
	Cluster     string `json:"cluster"`
	Certificate string `json:"certificate"` // PEM, to show to netmasters
	Authorities string `json:"authorities"` // PEM, that netmasters' own are signed by
}

// Authority is how a cluster is known: whoever has its pin can tell that these are its.
type Authority struct {
	Cluster     string `json:"cluster"`
	Authorities string `json:"authorities"` // PEM
}
