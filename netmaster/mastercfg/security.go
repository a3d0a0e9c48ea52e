package mastercfg

// SecurityKey is where it is written how far a cluster is closed. A cluster without it
// is open.
const SecurityKey = GlobalRoot + "security"

// Security is how far a cluster is closed.
type Security struct {
	Mode      SecurityMode `json:"mode"`
	ClusterID string       `json:"clusterID"` // in the names of its certificates

	Authorities string `json:"authorities,omitempty"` // hash of those that all are to know; empty: they were never replaced
	Keyring     string `json:"keyring,omitempty"`     // state of the one that all netmasters are to have; see package keyring
	Sealed      bool   `json:"sealed,omitempty"`      // secrets of objects are sealed in the store: every netmaster tells them to the agents that need them
}

// SecurityMode is what is asked of requests.
type SecurityMode string

// The modes.
const (
	SecurityOpen       SecurityMode = "open"       // nothing
	SecurityPermissive SecurityMode = "permissive" // it is noted what enforced would refuse
	SecurityEnforced   SecurityMode = "enforced"   // an identity, and the right
)

// SecurityPath is where the mode is asked for; below it, it is changed.
const SecurityPath = "/api/v1/security"
