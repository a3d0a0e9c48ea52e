package objdb

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Wire is the store's own protocol, for a proxy that forwards requests of others. Errors are those of
// the store as it sends them.
type Wire struct {
	KV      pb.KVClient
	Lease   pb.LeaseClient
	Cluster pb.ClusterClient
}

// Wire returns the clients of the store's protocol.
func (db *DB) Wire(ctx context.Context) (Wire, error) {
	client, err := db.Client(ctx)
	if err != nil {
		return Wire{}, err
	}
	return Wire{clientv3.RetryKVClient(client), clientv3.RetryLeaseClient(client), clientv3.RetryClusterClient(client)}, nil
}
