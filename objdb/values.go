package objdb

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

// Values protect the contents of the store from readers that bypass this package: if wanted, the values of keys in
// sealableRoots are encrypted when they are sent, and decrypted when they arrive. All packages above use plain values.
type Values interface {
	// Sealing reports whether values are to be encrypted. Encrypted ones are decrypted in any case.
	Sealing() bool
	// Seal encrypts the value of a key for the store; the result begins with secret.SealedPrefix.
	Seal(key string, value []byte) ([]byte, error)
	// Open decrypts a stored value of a key. Its error fails the whole request: a listing without some values
	// would look as if these keys were missing. Plain values are returned unchanged.
	Open(key string, stored []byte) ([]byte, error)
}

// sealableRoots are the prefixes of keys whose values may be encrypted: the model, the state, and journals of both.
var sealableRoots = []string{"/contiv.io/obj/", "/contiv.io/state/", "/contiv.io/journal/", "/contiv.io/journal-damaged/"}

func isSealable(key []byte) bool {
	return slices.ContainsFunc(sealableRoots, func(root string) bool { return bytes.HasPrefix(key, []byte(root)) })
}

// IsSealed reports whether the value of a key is encrypted.
func IsSealed(key string, stored []byte) bool {
	return isSealable([]byte(key)) && bytes.HasPrefix(stored, []byte(secret.SealedPrefix))
}

// noValues are the Values of a process without keys.
type noValues struct{}

func (noValues) Sealing() bool { return false }

func (noValues) Seal(_ string, value []byte) ([]byte, error) { return value, nil }

func (noValues) Open(key string, stored []byte) ([]byte, error) {
	if IsSealed(key, stored) {
		return nil, fault.New(fault.Denied, "the value of %s is sealed (netmaster --encrypt-values), and only netmasters have the keys: "+
			"have this process ask them (netplugin --netmasters)", key)
	}
	return stored, nil
}

type asStored struct{}

// AsStored returns a context in which answers have values as they are stored, encrypted or not.
func AsStored(ctx context.Context) context.Context { return context.WithValue(ctx, asStored{}, true) }

// valueCalls encrypt and decrypt the values in the calls of a client. They are closer to the store than etcd's
// own retries of calls: a request belongs to these, and is never changed.
type valueCalls struct{ Values }

func (v valueCalls) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(v.unary), grpc.WithChainStreamInterceptor(v.stream)}
}

func (v valueCalls) unary(ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	request, err := v.sealed(request)
	if err != nil {
		return err
	}
	if err := invoke(ctx, method, request, answer, cc, opts...); err != nil || ctx.Value(asStored{}) != nil {
		return err
	}
	if err := v.openAll(answer); err != nil {
		return unreadable{err}
	}
	return nil
}

// unreadable is the error of a request whose answer has a value that cannot be decrypted.
type unreadable struct{ error }

// Unwrap returns the cause.
func (u unreadable) Unwrap() error { return u.error }

// IsUnreadable reports whether a request, or a watch, has failed because a value in its answer cannot be
// decrypted. A retry does not help.
func IsUnreadable(err error) bool {
	return errors.As(err, new(unreadable)) || status.Code(err) == codes.DataLoss
}

// sealed returns a request with its values as they are to be stored.
func (v valueCalls) sealed(request any) (any, error) {
	if !v.Sealing() {
		return request, nil
	}
	switch r := request.(type) {
	case *pb.PutRequest:
		r = proto.CloneOf(r)
		return r, v.seal(r)
	case *pb.TxnRequest:
		r = proto.CloneOf(r)
		return r, v.sealTxn(r)
	}
	return request, nil
}

func (v valueCalls) sealTxn(r *pb.TxnRequest) error {
	for _, op := range slices.Concat(r.Success, r.Failure) {
		var err error
		switch {
		case op.GetRequestPut() != nil:
			err = v.seal(op.GetRequestPut())
		case op.GetRequestTxn() != nil:
			err = v.sealTxn(op.GetRequestTxn())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v valueCalls) seal(put *pb.PutRequest) (err error) {
	if isSealable(put.Key) {
		put.Value, err = v.Seal(string(put.Key), put.Value)
	}
	return err
}

// openAll decrypts the values in an answer.
func (v valueCalls) openAll(answer any) error {
	switch a := answer.(type) {
	case *pb.RangeResponse:
		return v.open(a.GetKvs()...)
	case *pb.PutResponse:
		return v.open(a.GetPrevKv())
	case *pb.DeleteRangeResponse:
		return v.open(a.GetPrevKvs()...)
	case *pb.TxnResponse:
		for _, r := range a.GetResponses() {
			for _, part := range []any{r.GetResponseRange(), r.GetResponsePut(), r.GetResponseDeleteRange(), r.GetResponseTxn()} {
				if err := v.openAll(part); err != nil {
					return err
				}
			}
		}
	case *pb.WatchResponse:
		for _, e := range a.GetEvents() {
			if err := v.open(e.GetKv(), e.GetPrevKv()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v valueCalls) open(kvs ...*mvccpb.KeyValue) (err error) {
	for _, kv := range kvs {
		if len(kv.GetValue()) == 0 || !isSealable(kv.Key) {
			continue
		}
		if kv.Value, err = v.Open(string(kv.Key), kv.Value); err != nil {
			return err
		}
	}
	return nil
}

func (v valueCalls) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := begin(ctx, desc, cc, method, opts...)
	if err != nil || !strings.HasSuffix(method, "/Watch") {
		return s, err
	}
	return openedWatches{s, v}, nil
}

// openedWatches is a stream of watches whose values are decrypted.
type openedWatches struct {
	grpc.ClientStream
	values valueCalls
}

// RecvMsg implements grpc.ClientStream. If a value cannot be decrypted, the error is one after which etcd's
// client does not reopen the stream itself, but reports it to the watches.
func (o openedWatches) RecvMsg(m any) error {
	if err := o.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	if err := o.values.openAll(m); err != nil {
		return status.Error(codes.DataLoss, err.Error())
	}
	return nil
}
