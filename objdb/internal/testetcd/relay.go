package testetcd

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// ErrNoAnswer is the error of a client that waits in vain for the store's answer.
var ErrNoAnswer = status.Error(codes.Unavailable, "no answer")

// Request is a call of the KV service on its way to the store. Send forwards it, each time it is called, and
// returns the store's answer.
type Request struct {
	Method string // such as Range or Txn
	Body   []byte
	Send   func() (answer []byte, err error)
}

// NewRelay starts a relay between clients and a store, and returns its URL. pass decides about each call of the KV
// service, and may be called by several goroutines; all other calls pass.
func NewRelay(t testing.TB, store string, pass func(Request) (answer []byte, err error)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to, err := grpc.NewClient(strings.TrimPrefix(store, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(asSent{})))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ForceServerCodec(asSent{}), grpc.UnknownServiceHandler(func(_ any, in grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(in)
		header, _ := metadata.FromIncomingContext(in.Context())
		ctx := metadata.NewOutgoingContext(in.Context(), header)
		if name, ok := strings.CutPrefix(method, "/etcdserverpb.KV/"); ok {
			return relayCall(ctx, in, to, Request{Method: name}, pass)
		}
		return relayStream(ctx, in, to, method)
	}))
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		<-served
		to.Close()
	})
	return "http://" + l.Addr().String()
}

func relayCall(ctx context.Context, in grpc.ServerStream, to *grpc.ClientConn, r Request, pass func(Request) ([]byte, error)) error {
	if err := in.RecvMsg(&r.Body); err != nil {
		return err
	}
	r.Send = func() (answer []byte, err error) {
		err = to.Invoke(context.WithoutCancel(ctx), "/etcdserverpb.KV/"+r.Method, &r.Body, &answer)
		return answer, err
	}
	answer, err := pass(r)
	if err != nil {
		return err
	}
	return in.SendMsg(&answer)
}

func relayStream(ctx context.Context, in grpc.ServerStream, to *grpc.ClientConn, method string) error {
	out, err := to.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() { // ends with the call
		for {
			var m []byte
			if err := in.RecvMsg(&m); err != nil {
				_ = out.CloseSend()
				return
			}
			_ = out.SendMsg(&m) // RecvMsg returns the error that ended out
		}
	}()
	for {
		var m []byte
		switch err := out.RecvMsg(&m); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		if err := in.SendMsg(&m); err != nil {
			return err
		}
	}
}

// asSent is a codec that leaves messages unchanged.
type asSent struct{}

func (asSent) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (asSent) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

func (asSent) Name() string { return "proto" }
