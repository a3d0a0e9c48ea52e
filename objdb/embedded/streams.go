package embedded

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// streams ends the streams of clients when the member stops. etcd waits for
// each, several seconds, and a client whose watch has just ended opens the next
// one on the connection it has; nothing would ever end that.
type streams struct {
	closing context.Context
	close   context.CancelFunc
}

func newStreams() streams {
	ctx, cancel := context.WithCancel(context.Background())
	return streams{ctx, cancel}
}

// intercept serves a stream until its client or the member is done.
func (s streams) intercept(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, serve grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	err := serve(server, bounded{stream, ctx})
	if s.closing.Err() != nil {
		// Of all codes this one has a client go on at another member.
		return status.Error(codes.Unavailable, "the member is stopping")
	}
	return err
}

// bounded is a stream with an end of its own.
type bounded struct {
	grpc.ServerStream
	ctx context.Context
}

func (b bounded) Context() context.Context { return b.ctx }
