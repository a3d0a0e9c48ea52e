package objdb

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Limits of one transaction. A store with default settings takes 128 compares,
// 128 operations and 1.5 MiB, an embedded one 1024 of each; a fence is one
// compare more, and some room is left.
const (
	FewOps      = 119
	ManyOps     = 1000
	MaxTxnBytes = 1 << 20
)

// MaxOps finds out how many compares, and how many operations, the store takes
// in one transaction: ManyOps or FewOps.
func (db *DB) MaxOps(ctx context.Context) (int, error) {
	always := clientv3.Compare(clientv3.Version(lockRoot), "=", 0)
	cmps := make([]clientv3.Cmp, ManyOps)
	for i := range cmps {
		cmps[i] = always
	}
	_, err := Call(ctx, db, "measure", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(cmps...).Commit()
	})
	switch {
	case err == nil:
		return ManyOps, nil
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return FewOps, nil
	}
	return 0, err
}
