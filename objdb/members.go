package objdb

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// MemberURLs are the URLs at which the members of the store listen, for clients and for
// each other, as they say themselves.
func (db *DB) MemberURLs(ctx context.Context) (urls []string, err error) {
	members, err := Call(ctx, db, "list members", func(ctx context.Context, c *clientv3.Client) (*clientv3.MemberListResponse, error) {
		return c.MemberList(ctx)
	})
	if err != nil {
		return nil, err
	}
	for _, m := range members.Members {
		urls = slices.Concat(urls, m.ClientURLs, m.PeerURLs)
	}
	return urls, nil
}
