package gate

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/contiv/netplugin/objdb"
)

// renewals sends the lease renewals of all nodes to the store over a few streams: a stream for each node would
// need as many goroutines again as the nodes have here, and in the store's member as well.
type renewals struct {
	db      *objdb.DB
	streams chan *renewing // all of them; nil: not opened
}

const (
	renewalsAtOnce = 8
	renewalTime    = 5 * time.Second // for the store to answer one renewal
)

// renewing is one stream to the store.
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

// renew forwards a renewal. A stream that has failed is not used again.
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
		// It ended after the last renewal, as all streams do when the store's member is restarted.
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

// begin opens a stream, which outlives the request that opens it.
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
	_ = s.Send(request) // Recv returns the cause of a failure
	return s.Recv()
}

// close waits for renewals in progress, and ends the streams. No more renewals are possible.
func (r *renewals) close() {
	for range renewalsAtOnce {
		if s := <-r.streams; s != nil {
			s.end()
		}
	}
}
