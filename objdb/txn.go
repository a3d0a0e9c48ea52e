package objdb

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Guard is a condition of a transaction.
type Guard struct{ cmp clientv3.Cmp }

// Absent holds while the key does not exist.
func Absent(key string) Guard {
	return Guard{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}
}

// Present holds while the key exists.
func Present(key string) Guard {
	return Guard{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)}
}

// Unchanged holds while the key is as it was read.
func Unchanged(kv KV) Guard { return AtRevision(kv.Key, kv.ModRevision) }

// AtRevision holds while the key was last written at rev; 0 stands for an absent key.
func AtRevision(key string, rev int64) Guard {
	return Guard{clientv3.Compare(clientv3.ModRevision(key), "=", rev)}
}

// SameIncarnation holds while the key is the one created at rev, however often written.
func SameIncarnation(key string, rev int64) Guard {
	return Guard{clientv3.Compare(clientv3.CreateRevision(key), "=", rev)}
}

// NotAfter holds while the key is absent or was last written at rev or before.
func NotAfter(key string, rev int64) Guard {
	return Guard{clientv3.Compare(clientv3.ModRevision(key), "<", rev+1)}
}

// RangeNotAfter holds while no key in [from, end) is newer than rev. It detects changed and added keys, but not
// removed ones.
func RangeNotAfter(from, end string, rev int64) Guard {
	return Guard{clientv3.Compare(clientv3.ModRevision(from), "<", rev+1).WithRange(end)}
}

// Txn is a transaction: if all guards hold, everything is written at one revision, otherwise nothing. Only key
// and value of Puts are used. A key may occur only once in Puts and Deletes.
type Txn struct {
	If      []Guard
	Puts    []KV
	Deletes []string
}

func (t Txn) compares() []clientv3.Cmp {
	cmps := make([]clientv3.Cmp, len(t.If))
	for i, g := range t.If {
		cmps[i] = g.cmp
	}
	return cmps
}

func (t Txn) ops(opts ...clientv3.OpOption) []clientv3.Op {
	ops := make([]clientv3.Op, 0, len(t.Puts)+len(t.Deletes))
	for _, kv := range t.Puts {
		ops = append(ops, clientv3.OpPut(kv.Key, string(kv.Value), opts...))
	}
	for _, key := range t.Deletes {
		ops = append(ops, clientv3.OpDelete(key))
	}
	return ops
}

// keys returns the written keys, those of Puts first.
func (t Txn) keys() []string {
	keys := make([]string, 0, len(t.Puts)+len(t.Deletes))
	for _, kv := range t.Puts {
		keys = append(keys, kv.Key)
	}
	return append(keys, t.Deletes...)
}

// Txn commits a transaction and returns its revision; ok is false if a guard did not hold. It has no leader
// fence: it is for keys without other writers, such as an agent's own.
//
// An error of kind Unavailable leaves open whether the transaction was executed.
func (db *DB) Txn(ctx context.Context, t Txn) (rev int64, ok bool, err error) {
	resp, err := Call(ctx, db, "transaction", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(t.compares()...).Then(t.ops()...).Commit()
	})
	if err != nil {
		return 0, false, err
	}
	return resp.Header.Revision, resp.Succeeded, nil
}
