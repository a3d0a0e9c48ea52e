package objdb

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Limits of one transaction. A store with default settings takes 128 compares,
// 128 operations and 1.5 MiB, an embedded one 1024 of each; one compare is the
// fence, and some room is left.
const (
	fewOps   = 119
	manyOps  = 1000
	maxBytes = 1 << 20
)

// measure finds out how many operations the store takes in one transaction.
func (l *Ledger) measure(ctx context.Context) error {
	cmps := Txn{If: make([]Guard, manyOps)}
	for i := range cmps.If {
		cmps.If[i] = l.term.Fence()
	}
	_, err := request(ctx, l.db, "measure", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(cmps.compares()...).Commit()
	})
	switch {
	case err == nil:
		l.maxOps = manyOps
	case errors.Is(err, rpctypes.ErrTooManyOps):
		l.maxOps = fewOps
	default:
		return err
	}
	return nil
}
