package objdb

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// MayWrite returns an error of kind Denied if the store would not let this process write one of some keys: its user has
// another password, or a role without the right. Reads and renewals of leases may go on meanwhile.
//
// Nothing is written: the transaction's condition never holds, as no version is negative. etcd checks the rights for
// both of its branches all the same.
func (db *DB) MayWrite(ctx context.Context, keys ...string) error {
	never := clientv3.Compare(clientv3.Version(lockRoot), "<", 0)
	puts := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		puts[i] = clientv3.OpPut(key, "")
	}
	_, err := Call(ctx, db, "ask for the right to write", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(never).Then(puts...).Commit()
	})
	return err
}
