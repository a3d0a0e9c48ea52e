package gate

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
)

// leaseServer serves leases. A node has a few, with a TTL of at most a minute.
type leaseServer struct {
	pb.UnimplementedLeaseServer
	g *Gate
}

// ownsLease reports whether a lease belongs to a node.
func ownsLease(host string, id int64) bool {
	return id > 0 && id&^0xffffffff == mastercfg.LeasesOf(host)
}

// authorize returns the caller of a request, and a client of the store for it.
func (s *leaseServer) authorize(ctx context.Context) (*caller, objdb.Wire, error) {
	c, err := s.g.caller(ctx)
	if err != nil {
		return nil, objdb.Wire{}, err
	}
	wire, err := s.g.cfg.DB.Wire(ctx)
	if err != nil {
		return nil, wire, unavailable("%v", err)
	}
	return c, wire, nil
}

// LeaseGrant grants a lease to a node, with an id that the gate chooses. Concurrent
// requests of a node at one netmaster are counted one after the other; requests at
// several netmasters at the same moment may exceed the limit by one each.
func (s *leaseServer) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	c, wire, err := s.authorize(ctx)
	if err != nil {
		return nil, err
	}
	if r.ID != 0 || r.TTL < minTTL || r.TTL > maxTTL {
		return nil, s.g.refuse(c, "LeaseGrant", "", "number %x, %d s: want no number, and %d to %d s", r.ID, r.TTL, minTTL, maxTTL)
	}
	if err := occupy(ctx, c.budget.granting); err != nil {
		return nil, err
	}
	defer func() { <-c.budget.granting }()
	all, err := wire.Lease.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
	if err != nil {
		return nil, err
	}
	own := 0
	for _, l := range all.Leases {
		if ownsLease(c.host, l.ID) {
			own++
		}
	}
	if own >= nodeLeases {
		return nil, s.g.refuse(c, "LeaseGrant", "", "the node has %d leases", own)
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return wire.Lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: mastercfg.LeasesOf(c.host) | int64(binary.BigEndian.Uint32(random[:])), TTL: r.TTL})
}

// LeaseRevoke revokes a lease of the node.
func (s *leaseServer) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	c, wire, err := s.authorize(ctx)
	if err != nil {
		return nil, err
	}
	if !ownsLease(c.host, r.ID) {
		return nil, s.g.refuse(c, "LeaseRevoke", "", "lease %x is not the node's", r.ID)
	}
	return wire.Lease.LeaseRevoke(ctx, r)
}

// LeaseKeepAlive renews leases of the node, one after the other.
func (s *leaseServer) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c, err := s.g.caller(stream.Context())
		if err != nil {
			return err
		}
		if !ownsLease(c.host, r.ID) {
			return s.g.refuse(c, "LeaseKeepAlive", "", "lease %x is not the node's", r.ID)
		}
		answer, err := s.g.renewals.renew(stream.Context(), r)
		if err != nil {
			return err
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}
