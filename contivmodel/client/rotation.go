package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/contiv/netplugin/utils/fault"
)

// Rotation is a step in the replacement of a cluster's CAs.
type Rotation struct {
	Step        string   `json:"step"`        // add, switch or drop; again: an interrupted step is completed
	Authorities string   `json:"authorities"` // hash of the CAs that daemons should have now
	Done        bool     `json:"done"`        // no step is left
	Absent      []string `json:"absent"`      // daemons that have joined and are absent; they are not waited for: node/h1
}

// RotateAuthorities carries out the next step; with dryRun it only returns it. While a daemon lacks the result of
// the last step, the error is a fault.Conflict that names it.
func (c *Client) RotateAuthorities(ctx context.Context, dryRun bool) (done Rotation, err error) {
	body, err := json.Marshal(map[string]bool{"dryRun": dryRun})
	if err != nil {
		return done, fault.New(fault.Internal, "authorities: %w", err)
	}
	return done, c.do(ctx, http.MethodPost, "/api/v1/authorities/rotate", body, &done)
}

// KeysRotation is a step in the replacement of the key that encrypts secrets in the store.
type KeysRotation struct {
	Step     string `json:"step"`     // add, turn; again: an interrupted step is completed
	Done     bool   `json:"done"`     // no step is left
	Resealed int    `json:"resealed"` // secrets of the store that were encrypted with the new key
	Left     int    `json:"left"`     // texts that look encrypted and cannot be decrypted
}

// RotateKeys carries out the next step; with dryRun it only returns it. While a netmaster lacks the key, the error
// is a fault.Conflict that names it.
func (c *Client) RotateKeys(ctx context.Context, dryRun bool) (done KeysRotation, err error) {
	body, err := json.Marshal(map[string]bool{"dryRun": dryRun})
	if err != nil {
		return done, fault.New(fault.Internal, "keyring: %w", err)
	}
	return done, c.do(ctx, http.MethodPost, "/api/v1/security/rotate-keys", body, &done)
}
