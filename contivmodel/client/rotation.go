package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/contiv/netplugin/utils/fault"
)

// Rotation is a step of replacing the authorities of a cluster.
type Rotation struct {
	Step        string   `json:"step"`        // add, switch or drop; again: one that was interrupted is completed
	Authorities string   `json:"authorities"` // hash of those that daemons are to know now
	Done        bool     `json:"done"`        // there is no step left
	Absent      []string `json:"absent"`      // who has joined and is away, so that nobody waits for it: node/h1
}

// RotateAuthorities does the next step; with dryRun it only tells which one. While somebody
// does not know yet what the last one has made, that is a fault.Conflict that names who.
func (c *Client) RotateAuthorities(ctx context.Context, dryRun bool) (done Rotation, err error) {
	body, err := json.Marshal(map[string]bool{"dryRun": dryRun})
	if err != nil {
		return done, fault.New(fault.Internal, "authorities: %w", err)
	}
	return done, c.do(ctx, http.MethodPost, "/api/v1/authorities/rotate", body, &done)
}

// KeysRotation is a step of replacing the key that seals secrets in the store.
type KeysRotation struct {
	Step     string `json:"step"`     // add, turn; again: one that was interrupted is completed
	Done     bool   `json:"done"`     // there is no step left
	Resealed int    `json:"resealed"` // secrets of the store that were sealed anew
	Left     int    `json:"left"`     // texts that look sealed and do not open
}

// RotateKeys does the next step; with dryRun it only tells which one. While a netmaster has not got
// the key yet, that is a fault.Conflict that names it.
func (c *Client) RotateKeys(ctx context.Context, dryRun bool) (done KeysRotation, err error) {
	body, err := json.Marshal(map[string]bool{"dryRun": dryRun})
	if err != nil {
		return done, fault.New(fault.Internal, "keyring: %w", err)
	}
	return done, c.do(ctx, http.MethodPost, "/api/v1/security/rotate-keys", body, &done)
}
