package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/membership"
	"github.com/contiv/netplugin/objdb"
)

// thief has the key of a node and tries everything that the key does not permit, from many clients at once:
// between the first and the second line of its input, between the third and the fourth, and so on. The tests of
// netmaster/gate check the results.
func (c *crowd) thief(ctx context.Context, in *bufio.Scanner, out io.Writer) error {
	db, member, err := c.join(ctx, "thief", netip.MustParseAddr("10.201.0.3"))
	if err != nil {
		return err
	}
	defer db.Close()
	client, err := db.Client(context.Background())
	if err != nil {
		return err
	}
	var hosts []string
	for _, master := range c.masters {
		u, err := url.Parse(master)
		if err != nil {
			return err
		}
		hosts = append(hosts, u.Host)
	}
	fmt.Fprintln(out, "ready")
	for in.Scan() {
		stop := try(ctx, client, member, hosts)
		in.Scan()
		stop()
		fmt.Fprintln(out, "stopped")
	}
	return in.Err()
}

// try makes all attempts repeatedly, and also handshakes with netmasters, until it is stopped.
func try(ctx context.Context, client *clientv3.Client, member *membership.Member, hosts []string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var trying sync.WaitGroup
	for _, attempt := range attempts {
		trying.Go(func() {
			for ctx.Err() == nil {
				attempt(ctx, client)
			}
		})
	}
	for _, host := range hosts {
		trying.Go(func() {
			for ctx.Err() == nil { // handshakes, and then silent connections
				conf := member.TLS().Clone()
				conf.NextProtos = []string{"h2"}
				dialer := tls.Dialer{Config: conf}
				if conn, err := dialer.DialContext(ctx, "tcp", host); err == nil {
					_ = conn.Close()
				}
			}
		})
	}
	return func() { cancel(); trying.Wait() }
}

// attempts are made repeatedly; all are refused.
var attempts = []func(context.Context, *clientv3.Client){
	func(ctx context.Context, c *clientv3.Client) {
		_, _ = c.Get(ctx, mastercfg.StateRoot, clientv3.WithFromKey())
	},
	func(ctx context.Context, c *clientv3.Client) {
		_, _ = c.Get(ctx, mastercfg.AccessRoot, clientv3.WithPrefix())
	},
	func(ctx context.Context, c *clientv3.Client) {
		_, _ = c.Get(ctx, mastercfg.StateRoot, clientv3.WithPrefix())
	},
	func(ctx context.Context, c *clientv3.Client) { _, _ = c.Grant(ctx, 60) },
	func(ctx context.Context, c *clientv3.Client) {
		_, _ = c.Put(ctx, mastercfg.SecurityKey, "{}")
	},
	func(ctx context.Context, c *clientv3.Client) {
		_, _ = c.Txn(ctx).Then(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(mastercfg.SecurityKey, "{}")}, nil)).Commit()
	},
	func(ctx context.Context, c *clientv3.Client) {
		_, _ = c.Txn(ctx).Then(clientv3.OpPut(mastercfg.OvsDriverPrefix+"victim", "{}")).Commit()
	},
	func(ctx context.Context, c *clientv3.Client) {
		_, _ = c.Txn(ctx).Then(clientv3.OpDelete(objdb.ServicePrefix, clientv3.WithPrefix())).Commit()
	},
	func(ctx context.Context, c *clientv3.Client) {
		watching, stop := context.WithCancel(ctx)
		defer stop()
		for resp := range c.Watch(watching, mastercfg.StateRoot, clientv3.WithFromKey()) {
			if resp.Canceled {
				return
			}
		}
	},
	func(ctx context.Context, c *clientv3.Client) { _, _ = c.MemberRemove(ctx, 1) },
	func(ctx context.Context, c *clientv3.Client) { _, _ = c.AlarmList(ctx) },
}
