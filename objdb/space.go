package objdb

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
)

// Space is the size of the file of one member of the store. All sizes are in bytes.
type Space struct {
	Member string // name
	URL    string // URL of the query
	Size   int64  // of the file
	InUse  int64  // the part with data; only Defragment releases the rest
	Quota  int64  // size at which the store refuses to grow; 0: not reported (before etcd 3.6)
	Full   bool   // the alarm is raised: only deletions are accepted
}

// Space queries every member of the store, and returns those that answer. The error is that of members that do
// not. If the client URL of a member leads to another one, like loopback URLs that each member has on its own
// machine, it cannot be queried from here, and is left out.
func (db *DB) Space(ctx context.Context) ([]Space, error) {
	members, err := Call(ctx, db, "list members", func(ctx context.Context, c *clientv3.Client) (*clientv3.MemberListResponse, error) {
		return c.MemberList(ctx)
	})
	if err != nil {
		return nil, err
	}
	var all []Space
	var silent []error
	for _, m := range members.Members {
		if len(m.ClientURLs) == 0 {
			silent = append(silent, fault.New(fault.Unavailable, "etcd member %q at %s: has not started yet", m.Name, strings.Join(m.PeerURLs, ", ")))
			continue
		}
		url := m.ClientURLs[0]
		status, err := Call(ctx, db, "status of "+url, func(ctx context.Context, c *clientv3.Client) (*clientv3.StatusResponse, error) {
			return c.Status(ctx, url)
		})
		if err != nil {
			silent = append(silent, err)
			continue
		}
		if status.Header.MemberId != m.ID {
			continue
		}
		all = append(all, Space{
			Member: m.Name, URL: url,
			Size: status.DbSize, InUse: status.DbSizeInUse, Quota: status.DbSizeQuota,
			Full: slices.ContainsFunc(status.Errors, func(e string) bool { return strings.Contains(e, etcdserverpb.AlarmType_NOSPACE.String()) }),
		})
	}
	return all, errors.Join(silent...)
}

// Compact compacts the history of the store and returns when the room is free. It has no time limit, like Defragment.
func (db *DB) Compact(ctx context.Context) error {
	_, err := longRequest(ctx, db, "compact", func(ctx context.Context, c *clientv3.Client) (*clientv3.CompactResponse, error) {
		present, err := c.Get(ctx, lockRoot, clientv3.WithCountOnly())
		if err != nil {
			return nil, err
		}
		return c.Compact(ctx, present.Header.Revision, clientv3.WithCompactPhysical())
	})
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil // by another process
	}
	return err
}

// Defragment rewrites the file of one member without its unused part. The member does not serve meanwhile, so it may be
// left out, and connections to it be closed; the request has one of its own.
func (db *DB) Defragment(ctx context.Context, url string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(db.ctx, cancel)()
	client, err := db.dialer.dial(func() clientv3.Config { return db.dialer.one(url) })
	if err == nil {
		defer client.Close() // its error says that its own context has ended
		_, err = client.Defragment(ctx, url)
	}
	if err != nil {
		return db.explain("defragment "+url, err)
	}
	return nil
}

// Disarm clears the alarms of members whose file had reached the quota.
func (db *DB) Disarm(ctx context.Context) error {
	_, err := Call(ctx, db, "disarm alarms", func(ctx context.Context, c *clientv3.Client) (none struct{}, err error) {
		raised, err := c.AlarmList(ctx)
		if err != nil {
			return none, err
		}
		for _, alarm := range raised.Alarms {
			if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
				_, err = c.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarm))
			}
			if err != nil {
				return none, err
			}
		}
		return none, nil
	})
	return err
}
