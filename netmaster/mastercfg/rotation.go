package mastercfg

// Paths for replacing the CAs of a cluster.
const (
	AuthoritiesPath = "/api/v1/authorities" // for netmasters
	RotatePath      = AuthoritiesPath + "/rotate"
	RotateKeysPath  = SecurityPath + "/rotate-keys" // of the keyring
)

// HandedAuthorities are the CAs with their keys, as pki.Authorities.Encode makes them, and the keyring, by their
// file names.
type HandedAuthorities struct {
	Files map[string]string `json:"files"`
}

// RotateRequest requests the next step of replacing the CAs, or the key of the keyring.
type RotateRequest struct {
	DryRun bool `json:"dryRun"` // nothing is changed
}

// Check accepts everything.
func (r *RotateRequest) Check() error { return nil }

// Rotation is the step that was done, or with DryRun would be.
type Rotation struct {
	Step        string   `json:"step"`        // add, switch or drop; see pki.Step
	Authorities string   `json:"authorities"` // hash of those that daemons must have now
	Done        bool     `json:"done"`        // no step is left
	Absent      []string `json:"absent"`      // nodes and netmasters that have joined and are not registered, so that the step does not wait for them: node/h1
}

// KeysRotation is the step that was done, or with DryRun would be.
type KeysRotation struct {
	Step     string `json:"step"`     // add, turn, or again: an interrupted one is completed
	Done     bool   `json:"done"`     // no step is left
	Resealed int    `json:"resealed"` // secrets of the store that were encrypted again
	Left     int    `json:"left"`     // texts that look encrypted and cannot be decrypted
}
