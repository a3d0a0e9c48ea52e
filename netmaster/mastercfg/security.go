package mastercfg

// SecurityKey is the key of a cluster's security mode. A cluster without it is open.
const SecurityKey = GlobalRoot + "security"

// Security is the security mode of a cluster, with its CAs and keys.
type Security struct {
	Mode      SecurityMode `json:"mode"`
	ClusterID string       `json:"clusterID"` // in the names in its certificates

	Authorities string `json:"authorities,omitempty"` // hash of the CAs that all must have; empty: they were never replaced
	Keyring     string `json:"keyring,omitempty"`     // state of the keyring that all netmasters must have; see package keyring
	Sealed      bool   `json:"sealed,omitempty"`      // secrets of objects are encrypted in the store: every netmaster decrypts them for the agents that need them
}

// SecurityMode is what requests must prove.
type SecurityMode string

// The modes.
const (
	SecurityOpen       SecurityMode = "open"       // nothing
	SecurityPermissive SecurityMode = "permissive" // requests that enforced would refuse are recorded
	SecurityEnforced   SecurityMode = "enforced"   // an identity, and the right
)

// SecurityPath is where the mode is read; below it, it is changed.
const SecurityPath = "/api/v1/security"
