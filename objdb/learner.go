package objdb

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// refusedByLearner gives the refusal of a learner the code of etcd 3.6. etcd's client knows it by that, and asks the
// next endpoint; members of 3.4 and 3.5 send another code, so that while a learner is among the endpoints a call in so
// many fails, and elections, which need several calls, do not come to an end.
func refusedByLearner(ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, request, answer, cc, opts...)
	if errors.Is(rpctypes.Error(err), errLearner) {
		return rpctypes.ErrGRPCNotSupportedForLearner
	}
	return err
}
