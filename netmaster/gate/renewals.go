package gate

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/contiv/netplugin/objdb"
)

// renewals has the leases of all nodes renewed over a few streams to the store: one for each node would
// be as many tasks again, in the store's member, too, as the nodes have here.
type renewals struct {
	db      *objdb.DB
	streams chan *renewing // as many as there may be; nil: not begun
}

const (
	renewalsAtOnce = 8
	renewalTime    = 5 * time.Second // for the store to answer one
)

// renewing is one stream.
type renewing struct {
	pb.Lease_LeaseKeepAliveClient
	end context.CancelFunc
}

func newRenewals(db *objdb.DB) *renewals {
	r := &renewals{db, make(chan *renewing, renewalsAtOnce)}
	for range renewalsAtOnce {
		r.streams <- nil
	}
	return r
}

// renew passes a renewal on. A stream that has failed is not used again.
func (r *renewals) renew(ctx context.Context, request *pb.LeaseKeepAliveRequest) (answer *pb.LeaseKeepAliveResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, renewalTime)
	defer cancel()
	var s *renewing
	select {
	case s = <-r.streams:
	case <-ctx.Done():
		return nil, unavailable("renewing lease %x: %d others are being renewed", request.ID, renewalsAtOnce)
	}
	defer func() { r.streams <- s }()
	if s != nil {
		answer, err := s.exchange(ctx, request)
		if err == nil {
			return answer, nil
		}
		s.end()
		s = nil
		if ctx.Err() != nil {
			return nil, err
		}
		// It has ended with what was asked before, as all do when the store's member is started again.
	}
	s, err = r.begin(ctx)
	if err != nil {
		return nil, err
	}
	answer, err = s.exchange(ctx, request)
	if err != nil {
		s.end()
		s = nil
	}
	return answer, err
}

// begin begins a stream, which lasts longer than the request that it begins with.
func (r *renewals) begin(ctx context.Context) (*renewing, error) {
	wire, err := r.db.Wire(ctx)
	if err != nil {
		return nil, unavailable("%v", err)
	}
	lasting, end := context.WithCancel(context.Background())
	stream, err := wire.Lease.LeaseKeepAlive(lasting)
	if err != nil {
		end()
		return nil, err
	}
	return &renewing{stream, end}, nil
}

func (s *renewing) exchange(ctx context.Context, request *pb.LeaseKeepAliveRequest) (*pb.LeaseKeepAliveResponse, error) {
	defer context.AfterFunc(ctx, s.end)()
	_ = s.Send(request) // why it fails is told by Recv
	return s.Recv()
}

// close waits for those that are being renewed, and ends the streams. Nothing is renewed any more then.
func (r *renewals) close() {
	for range renewalsAtOnce {
		if s := <-r.streams; s != nil {
			s.end()
		}
	}
}
