package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/contiv/netplugin/test/testbed"
)

// administer connects to the store's member on a node as an administrator would with etcd's own tools: without the
// daemons.
func (s story) administer(n *testbed.Node) *clientv3.Client {
	s.Helper()
	etcd, err := administrator(n)
	s.must(err)
	s.Cleanup(func() { etcd.Close() })
	return etcd
}

func administrator(n *testbed.Node) (*clientv3.Client, error) {
	var conf *tls.Config
	if files := n.StoreFilesOutside(); files.CA != "" {
		var err error
		if conf, err = files.Client(); err != nil {
			return nil, err
		}
	}
	return clientv3.New(clientv3.Config{
		Endpoints:   []string{n.StoreURL()},
		TLS:         conf,
		DialTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return n.DialContext(ctx, "tcp", address)
		})},
	})
}

// makeStoreLeader makes the member on a node lead the others.
func makeStoreLeader(ctx context.Context, bed *testbed.Bed, successor *testbed.Node) error {
	etcd, err := administrator(successor)
	if err != nil {
		return err
	}
	defer etcd.Close()
	own, err := etcd.Status(ctx, successor.StoreURL())
	if err != nil || own.Leader == own.Header.MemberId {
		return err
	}
	for _, n := range bed.Nodes {
		etcd, err := administrator(n)
		if err != nil {
			return err
		}
		defer etcd.Close()
		if status, err := etcd.Status(ctx, n.StoreURL()); err != nil || status.Leader != status.Header.MemberId {
			continue
		}
		_, err = etcd.MoveLeader(ctx, own.Header.MemberId)
		return err
	}
	return errors.New("store: nobody leads")
}

// compact compacts all revisions of the store but the present one.
func compact(ctx context.Context, etcd *clientv3.Client) error {
	now, err := etcd.Get(ctx, "/contiv.io/")
	if err != nil {
		return err
	}
	_, err = etcd.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	return err
}
