package gate

import (
	"context"
	"path"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// isOffered reports whether nodes may call a method of etcd's protocol. All others, including future ones, are refused.
func isOffered(method string) bool {
	switch method {
	case pb.KV_Range_FullMethodName, pb.KV_Txn_FullMethodName, pb.Watch_Watch_FullMethodName,
		pb.Lease_LeaseGrant_FullMethodName, pb.Lease_LeaseRevoke_FullMethodName, pb.Lease_LeaseKeepAlive_FullMethodName,
		pb.Cluster_MemberList_FullMethodName:
		return true
	}
	return false
}

// onlyOffered refuses other unary calls.
func (g *Gate) onlyOffered(ctx context.Context, request any, call *grpc.UnaryServerInfo, serve grpc.UnaryHandler) (any, error) {
	if isOffered(call.FullMethod) {
		return serve(ctx, request)
	}
	var key []byte
	if about, ok := request.(interface{ GetKey() []byte }); ok {
		key = about.GetKey()
	}
	return nil, g.refuseCall(ctx, call.FullMethod, string(key))
}

// onlyOfferedStreams refuses other calls of any kind, including those of services that the gate does not have.
func (g *Gate) onlyOfferedStreams(server any, stream grpc.ServerStream, call *grpc.StreamServerInfo, serve grpc.StreamHandler) error {
	if isOffered(call.FullMethod) {
		return serve(server, stream)
	}
	return g.refuseCall(stream.Context(), call.FullMethod, "")
}

func (g *Gate) refuseCall(ctx context.Context, method, key string) error {
	c, err := g.caller(ctx)
	if err != nil {
		return err
	}
	return g.refuse(c, path.Base(method), key, "nodes do not call this")
}

// notOffered handles calls of services that the gate does not have, so that the interceptor refuses them.
func notOffered(any, grpc.ServerStream) error { return denied("nodes do not call this") }
