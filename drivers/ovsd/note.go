package ovsd

import (
	"context"
	"time"

	"github.com/contiv/netplugin/ofnet/ovsdb"
)

// noteTime is how long ovsdb-server may take to write a note.
const noteTime = 5 * time.Second

// note writes state that is recorded nowhere else into external_ids of the bridge's row, and waits until the
// replica has it, too. Without a bridge it does nothing.
func (d *Driver) note(ctx context.Context, key, text string) error {
	bridge, ok := d.db.ourBridge()
	if !ok || bridge.ExternalIDs[key] == text {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	if _, err := d.db.client.Transact(ctx, ovsdb.Mutate("Bridge", ovsdb.Where("_uuid", bridge.UUID), setExternalID(key, text)...)); err != nil {
		return err
	}
	return d.db.client.Wait(ctx, func() (bool, error) {
		now, there := d.db.ourBridge()
		return !there || now.UUID != bridge.UUID || now.ExternalIDs[key] == text, nil
	})
}

// setExternalID returns the mutations that set a key of external_ids; "" removes the key.
func setExternalID(key, text string) []ovsdb.Mutation {
	change := []ovsdb.Mutation{{Column: "external_ids", Mutator: "delete", Value: []string{key}}}
	if text != "" {
		change = append(change, ovsdb.Mutation{Column: "external_ids", Mutator: "insert", Value: map[string]string{key: text}})
	}
	return change
}

// externalIDs returns those of the bridge's row; none without a bridge.
func (db *database) externalIDs() map[string]string {
	bridge, _ := db.ourBridge()
	return bridge.ExternalIDs
}
