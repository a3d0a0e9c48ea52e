package objdb

import (
	"context"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Limits of one transaction. A store with default settings accepts 128 compares, 128 operations and 1.5 MiB, an
// embedded one more of each; a fence is one more compare, and some room is left.
const (
	FewOps      = 119
	ManyOps     = 5000 // about a thousand objects with the keys that were read for them, if they fit into MaxTxnBytes
	MaxTxnBytes = 5 << 18
)

// FewerOps returns the next lower limit to try after a member of
// the store has refused a transaction. Every store accepts FewOps.
func FewerOps(than int) int {
	const before = 4500 // embedded members of earlier versions accept 4608
	for _, n := range []int{before, 1000} {
		if n < than {
			return n
		}
	}
	return FewOps
}

// MaxOps finds out how many compares, and how many operations, the store accepts in one transaction: ManyOps,
// FewOps, or a number between. Another member may accept fewer.
//
// The transaction is built from etcd's own types: the client would copy each compare. Its first compare fails,
// so that the store does not evaluate the others.
func (db *DB) MaxOps(ctx context.Context) (int, error) {
	never := clientv3.Compare(clientv3.Version(lockRoot), ">", 0)
	cmps := slices.Repeat([]*pb.Compare{never.GetCompare()}, ManyOps)
	// A transaction without operations is answered by a single member, which may be behind the others.
	quorum := []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(lockRoot), CountOnly: true}}}}
	for n := ManyOps; n > FewOps; n = FewerOps(n) {
		_, err := Call(ctx, db, "measure", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
			answer, err := clientv3.RetryKVClient(c).Txn(ctx, &pb.TxnRequest{Compare: cmps[:n], Failure: quorum})
			return (*clientv3.TxnResponse)(answer), clientv3.ContextError(ctx, err)
		})
		if !errors.Is(err, rpctypes.ErrTooManyOps) {
			return n, err
		}
	}
	return FewOps, nil
}

// TooManyOps reports whether the store refused a transaction for its number of compares or operations. It was not
// executed.
func TooManyOps(err error) bool { return errors.Is(err, rpctypes.ErrTooManyOps) }
