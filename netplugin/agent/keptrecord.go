package agent

import (
	"context"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// kept is the value of one record in the store and the revision of its last write; nil: absent. Writes compare
// the revision, so an unanswered earlier write that is executed late has no effect. The exception is an
// unanswered creation, which may be executed after the record was deleted.
type kept struct {
	key   string
	value []byte
	rev   int64
}

// readStored reads the record from the store.
func (k *kept) readStored(ctx context.Context, from store) error {
	kv, err := from.Get(ctx, k.key)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	k.value, k.rev = kv.Value, kv.ModRevision
	return nil
}

// replace writes the value, or deletes the record if value is nil; after an error the store may have either state.
func (k *kept) replace(ctx context.Context, in store, value []byte) error {
	txn := objdb.Txn{If: []objdb.Guard{objdb.AtRevision(k.key, k.rev)}}
	if value == nil {
		txn.Deletes = []string{k.key}
	} else {
		txn.Puts = []objdb.KV{{Key: k.key, Value: value}}
	}
	rev, ok, err := in.Txn(ctx, txn)
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.New(fault.Conflict, "record %s: is not the one that was read any more", k.key)
	case value == nil:
		rev = 0
	}
	k.value, k.rev = value, rev
	return nil
}
