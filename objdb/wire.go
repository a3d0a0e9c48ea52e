package objdb

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Wire is the store in its own protocol, for a proxy that passes requests of others on. Errors are
// those of the store as it sends them.
type Wire struct {
	KV      pb.KVClient
	Lease   pb.LeaseClient
	Cluster pb.ClusterClient
}

// Wire returns it.
func (db *DB) Wire(ctx context.Context) (Wire, error) {
	client, err := db.Client(ctx)
	if err != nil {
		return Wire{}, err
	}
	return Wire{clientv3.RetryKVClient(client), clientv3.RetryLeaseClient(client), clientv3.RetryClusterClient(client)}, nil
}
