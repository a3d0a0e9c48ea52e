package objdb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/contiv/netplugin/utils/fault"
)

// KeyNotFound is the only error for an absent key; tools search for its text.
func KeyNotFound(key string) error {
	return fault.New(fault.NotFound, "key not found: %s", key)
}

// explain sets the kind of an error of the store, and adds the operation and the endpoints.
func (db *DB) explain(what string, err error) error {
	if fault.As(err) != nil {
		return err
	}
	if errors.Is(err, rpctypes.ErrNoSpace) {
		err = fmt.Errorf("the store is full, nothing can be added until there is room: %w", err)
	}
	return fault.New(kindOf(err), "etcd at %s: %s: %w", db.endpoints(), what, err)
}

// kinds maps the status codes that etcd uses. Everything else is Internal.
var kinds = map[codes.Code]fault.Kind{
	codes.Unavailable:       fault.Unavailable,
	codes.DeadlineExceeded:  fault.Unavailable,
	codes.Canceled:          fault.Unavailable,
	codes.Aborted:           fault.Unavailable,
	codes.ResourceExhausted: fault.Unavailable, // too many requests
	codes.Unauthenticated:   fault.Denied,
	codes.PermissionDenied:  fault.Denied,
}

// stopped is in the answer of a member that does not serve any more, or not yet, while its listener accepts
// connections: the answer lacks all that gRPC requires.
const stopped = "malformed header: missing HTTP content-type"

// cutOff is the message of gRPC's client, with the code of internal errors, when a member has ended in the
// middle of an answer: the request may have been executed or not.
const cutOff = "server closed the stream without sending trailers"

// dropped is in the answer of a member that has proposed nothing, because there is no leader, or this one is
// handing leadership over. It has the code of unknown errors.
const dropped = "raft proposal dropped"

// oversize is in gRPC's error for a message that is longer than the store accepts, or than the client sends; it
// has the code of too many requests.
const oversize = "message larger than max"

// errLearner is the answer of a member that was added and has not caught up yet.
var errLearner = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)

func kindOf(err error) fault.Kind {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Unavailable
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fault.Exhausted
	case errors.Is(err, errLearner): // a temporary state
		return fault.Unavailable
	case status.Code(err) == codes.Unknown && (strings.Contains(err.Error(), stopped) || strings.Contains(err.Error(), dropped)),
		status.Code(err) == codes.Internal && strings.Contains(err.Error(), cutOff):
		return fault.Unavailable
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps),
		status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), oversize):
		return fault.TooLarge
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrPermissionDenied):
		return fault.Denied
	}
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return kinds[e.Code()]
	}
	return kinds[status.Code(err)]
}

// KVOf converts a key of the client library; its value is never nil.
func KVOf(kv *mvccpb.KeyValue) KV {
	return KV{Key: string(kv.Key), Value: nonNil(kv.Value), CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision}
}

// nonNil returns an empty value instead of nil, which means no value.
func nonNil(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}
