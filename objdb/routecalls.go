package objdb

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// A route learns from the client's calls whether its endpoint serves.

// ended evaluates the result of a call to a peer.
func (r *route) ended(err error, p *peer.Peer) {
	if p.LocalAddr == nil { // it has reached no endpoint
		return
	}
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Canceled: // ended by us
	case codes.Unavailable:
		r.noteCall(p.LocalAddr, false, time.Now())
	default: // other errors are answers
		r.noteCall(p.LocalAddr, true, time.Now())
	}
}

func (r *route) unary(ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	p := &peer.Peer{}
	err := invoke(ctx, method, request, answer, cc, append(opts, grpc.Peer(p))...)
	r.ended(err, p)
	return err
}

func (r *route) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := begin(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err // no endpoint has accepted it
	}
	p, ok := peer.FromContext(s.Context())
	if !ok {
		return s, nil
	}
	return &judged{s, r, p}, nil
}

// judged is a stream whose end is evaluated.
type judged struct {
	grpc.ClientStream
	way  *route
	peer *peer.Peer
}

// RecvMsg implements grpc.ClientStream.
func (j *judged) RecvMsg(m any) error {
	err := j.ClientStream.RecvMsg(m)
	if status.Code(err) == codes.Unavailable {
		j.way.ended(err, j.peer)
	}
	return err
}
