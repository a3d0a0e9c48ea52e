package gate

import (
	"context"
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
)

// kvServer serves KV.Range and KV.Txn.
type kvServer struct {
	pb.UnimplementedKVServer
	g *Gate
}

// Range reads a key or a range of keys. The response to a read of a range with values has at most one
// page, whatever limit the request has; its Count is that of the response. For a read without values, Count is that of the
// range.
func (s *kvServer) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	c, err := s.g.caller(ctx)
	if err != nil {
		return nil, err
	}
	key, end := string(r.Key), string(r.RangeEnd)
	switch {
	case !mayRead(c.host, key, end):
		return nil, s.g.refuse(c, "Range", key, "nodes do not read this, or not to %.100q", end)
	case r.SortOrder != pb.RangeRequest_NONE || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0 || r.Limit < 0:
		return nil, s.g.refuse(c, "Range", key, "only a least revision of modification, and a limit, can be asked for")
	}
	wire, err := s.g.cfg.DB.Wire(ctx)
	if err != nil {
		return nil, unavailable("%v", err)
	}
	if end != "" && hasMany(key, end) {
		done, err := s.g.scan(ctx, c.budget)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	return s.g.read(ctx, wire, c, r)
}

// scan waits until a node may read many keys, and for one of the gate's places for such reads. A node has one
// at a time; its next reads wait, and are charged for the earlier ones. done releases the place.
func (g *Gate) scan(ctx context.Context, b *budget) (done func(), err error) {
	if err := occupy(ctx, b.scanning); err != nil {
		return nil, err
	}
	err = b.scan(ctx)
	if err == nil {
		err = occupy(ctx, g.scans)
	}
	if err != nil {
		<-b.scanning
		return nil, err
	}
	return func() { <-g.scans; <-b.scanning }, nil
}

// occupy takes a place; receiving from the channel releases it.
func occupy(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read reads the store, page by page at one revision, and leaves out records that the node may not see.
func (g *Gate) read(ctx context.Context, wire objdb.Wire, c *caller, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	q := newRangeRead(r)
	if q.isRange() && !q.bare && isFiltered(string(r.Key)) && g.index.hasLostSince(c.host, r.Revision) {
		return nil, rpctypes.ErrGRPCCompacted // the pages of one listing have the same tenants
	}
	for {
		page, err := wire.KV.Range(ctx, q.next)
		if err != nil {
			return nil, err
		}
		if q.answer.Header == nil {
			q.begin(page.Header)
			// The scopes of the records are determined with a state at least as new as the records.
			if isFiltered(string(r.Key)) {
				if err := g.inStep(ctx, page.Header.Revision); err != nil {
					return nil, err
				}
			}
		}
		seen, count, err := g.filterPage(ctx, wire, c, q, page)
		if err != nil {
			return nil, err
		}
		if last := q.add(page, seen, count); last {
			return q.answer, nil
		}
	}
}

// filterPage leaves out of a page what the node may not see. count is the number of keys that it may see,
// including those older than the requested revision.
func (g *Gate) filterPage(ctx context.Context, wire objdb.Wire, c *caller, q *rangeRead, page *pb.RangeResponse) (seen []*mvccpb.KeyValue, count int64, err error) {
	r := q.asked
	if q.bare {
		if err := g.readOwn(ctx, wire, c.host, page.Kvs, q.next.Revision); err != nil {
			return nil, 0, err
		}
	}
	seen, count = g.index.filter(c.host, page.Kvs, r.MinModRevision)
	if q.isRange() {
		c.budget.chargeScan(len(page.Kvs), g.index.size())
	}
	if q.bare {
		for _, kv := range seen {
			kv.Value = nil
		}
	}
	if r.Revision > 0 && !q.isRange() && len(page.Kvs) > 0 && count == 0 && (g.index.mayHaveExisted(string(r.Key)) || g.index.mayHaveSeen(c.host, page.Kvs[0])) {
		return nil, 0, rpctypes.ErrGRPCCompacted
	}
	return seen, count, nil
}

// rangeRead is a read of a node in progress: the request, the next request to the store, and the answer so far.
type rangeRead struct {
	asked  *pb.RangeRequest
	next   *pb.RangeRequest
	answer *pb.RangeResponse
	bare   bool // without values
	limit  int  // of keys in the answer; 0: none
}

func newRangeRead(r *pb.RangeRequest) *rangeRead {
	q := &rangeRead{asked: r, answer: &pb.RangeResponse{}, bare: r.KeysOnly || r.CountOnly, limit: int(min(r.Limit, math.MaxInt32))}
	q.next = &pb.RangeRequest{Key: r.Key, RangeEnd: r.RangeEnd, Revision: r.Revision, KeysOnly: q.bare}
	if q.isRange() {
		q.next.Limit = pageSize
		if !q.bare && (q.limit == 0 || q.limit > pageSize) {
			q.limit = pageSize
		}
	}
	return q
}

func (q *rangeRead) isRange() bool { return len(q.asked.RangeEnd) > 0 }

// begin takes the header of the first page: all others are read at its revision.
func (q *rangeRead) begin(header *pb.ResponseHeader) {
	q.answer.Header = header
	if q.next.Revision == 0 {
		q.next.Revision = header.Revision
	}
}

// add adds the visible part of a page, and reports whether the answer is complete.
func (q *rangeRead) add(page *pb.RangeResponse, seen []*mvccpb.KeyValue, count int64) (last bool) {
	answer := q.answer
	answer.Count += count
	if !q.asked.CountOnly {
		answer.Kvs = append(answer.Kvs, seen...)
	}
	if q.limit > 0 && len(answer.Kvs) > q.limit {
		answer.Kvs, answer.More = answer.Kvs[:q.limit], true
	}
	enough := q.limit > 0 && !q.bare && len(answer.Kvs) >= q.limit
	if !page.More || len(page.Kvs) == 0 || enough {
		answer.More = answer.More || enough && page.More
		return true
	}
	q.next.Key = append(page.Kvs[len(page.Kvs)-1].Key, 0)
	return false
}

// size returns the number of records and registrations whose owner the index knows: nearly all that nodes may see.
func (x *index) size() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.records) + len(x.entries)
}

// readOwn adds the value to the node's own BGP record among keys: withholds needs it, so that the record is
// missing from keys and counts as from a listing.
func (g *Gate) readOwn(ctx context.Context, wire objdb.Wire, host string, kvs []*mvccpb.KeyValue, rev int64) error {
	own := slices.IndexFunc(kvs, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == mastercfg.BgpPrefix+host })
	if own < 0 || g.index.open == nil {
		return nil
	}
	there, err := wire.KV.Range(ctx, &pb.RangeRequest{Key: kvs[own].Key, Revision: rev})
	if err == nil && len(there.Kvs) > 0 {
		kvs[own].Value = there.Kvs[0].Value
	}
	return err
}

// mayHaveExisted reports whether a missing key may have had a record whose owner is unknown now: it was deleted
// before the kept history begins, or before this gate started. A node that reads such a key gets an error
// instead of "not found", from which it would conclude that the store was replaced.
func (x *index) mayHaveExisted(key string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, indexed := scopeByKey(key)
	_, there := x.records[key]
	_, gone := x.recent.gone[key]
	return indexed && !there && !gone
}

// mayHaveSeen reports whether the node may have seen a record at an old revision that it may not see now: the node may serve the record's
// tenant, and perhaps did; or the record belongs to an earlier creation of its key, and its value and the present networks say that it is
// for the node. The node then gets an error: from "not found" it would conclude that the store was replaced. It does not get the
// record, whose network may have been another one then.
func (x *index) mayHaveSeen(host string, past *mvccpb.KeyValue) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	key := string(past.Key)
	s, indexed := scopeByKey(key)
	if indexed {
		r, there := x.records[key]
		if !there {
			r = x.recent.gone[key]
		}
		if past.ModRevision < r.born {
			return x.sees(host, x.scopeByValue(key, past.Value), anyTime())
		}
		s = r.scope
	}
	return x.sees(host, s, anyTime()) || s.tenant != "" && x.mayServe(host, s.tenant)
}

// filter returns the records that a node may see and that were written at a revision or later, and the number of all
// visible ones. Lease ids are left out: a node whose name matches an id (see ownsLease) could revoke the lease.
func (x *index) filter(host string, kvs []*mvccpb.KeyValue, since int64) (seen []*mvccpb.KeyValue, count int64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, kv := range kvs {
		key := string(kv.Key)
		if !x.sees(host, x.scopeOf(key, kv.ModRevision), anyTime()) || x.withholds(host, key, kv.Value) {
			continue
		}
		count++
		if kv.ModRevision >= since {
			kv.Value, _ = x.seenBy(host, key, kv.Value)
			kv.Lease = 0
			seen = append(seen, kv)
		}
	}
	return seen, count
}

// clusterServer answers where the members of the store are, so that nodes keep pods away from them.
type clusterServer struct {
	pb.UnimplementedClusterServer
	g *Gate
}

// MemberList implements pb.ClusterServer.
func (s *clusterServer) MemberList(ctx context.Context, _ *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if _, err := s.g.caller(ctx); err != nil {
		return nil, err
	}
	wire, err := s.g.cfg.DB.Wire(ctx)
	if err != nil {
		return nil, unavailable("%v", err)
	}
	return wire.Cluster.MemberList(ctx, &pb.MemberListRequest{})
}
