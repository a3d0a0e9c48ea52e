package mastercfg

// Paths of replacing the authorities of a cluster.
const (
	AuthoritiesPath = "/api/v1/authorities" // for netmasters
	RotatePath      = AuthoritiesPath + "/rotate"
	RotateKeysPath  = SecurityPath + "/rotate-keys" // of the keyring
)

// HandedAuthorities are the authorities with their keys, as pki.Authorities.Encode makes them, and
// the keyring, by the names of their files.
type HandedAuthorities struct {
	Files map[string]string `json:"files"`
}

// RotateRequest asks for the next step of replacing the authorities, or the key of the keyring.
type RotateRequest struct {
	DryRun bool `json:"dryRun"` // nothing is changed
}

// Check refuses nothing.
func (r *RotateRequest) Check() error { return nil }

// Rotation is the step that was done, or would be.
type Rotation struct {
	Step        string   `json:"step"`        // add, switch or drop; see pki.Step
	Authorities string   `json:"authorities"` // hash of those that daemons are to know now
	Done        bool     `json:"done"`        // there is no step left
	Absent      []string `json:"absent"`      // who has joined and is not registered, so that nobody waits for it: node/h1
}

// KeysRotation is the step that was done, or would be.
type KeysRotation struct {
	Step     string `json:"step"`     // add, turn, or again: one that was interrupted is completed
	Done     bool   `json:"done"`     // there is no step left
	Resealed int    `json:"resealed"` // secrets of the store that were sealed anew
	Left     int    `json:"left"`     // texts that look sealed and do not open
}
