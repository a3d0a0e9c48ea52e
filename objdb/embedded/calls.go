package embedded

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// drainTime is how long running calls may continue when the member stops.
	drainTime = 500 * time.Millisecond
	// cutTime is how long they may take to react to their cancellation.
	// A call whose client does not read its answer does not react.
	cutTime = time.Second
)

// calls are the clients' calls to the member, from a read to a watch. When the member stops they have to end
// before its store is closed: a read of a closed store is a nil pointer dereference in etcd, which ends the
// whole process. Streams are ended at once: etcd would wait several seconds for each, and a client whose watch
// has just ended opens the next one on the same connection.
type calls struct {
	streaming, asking     context.Context // done: streams, or all calls, are cancelled
	endStreams, endAsking context.CancelFunc

	mu      sync.Mutex // held to begin a call, and to refuse later ones
	refused bool
	running sync.WaitGroup
}

func newCalls() *calls {
	c := &calls{}
	c.asking, c.endAsking = context.WithCancel(context.Background())
	c.streaming, c.endStreams = context.WithCancel(c.asking)
	return c
}

// errStopping has the only code that makes a client continue at another member.
var errStopping = status.Error(codes.Unavailable, "the member is stopping")

// options returns the options of a server of etcd with these calls.
func (c *calls) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(c.unary), grpc.ChainStreamInterceptor(c.stream)}
}

// stop refuses new calls and returns when none is running, or after drainTime and cutTime if some cannot be ended.
func (c *calls) stop() {
	c.mu.Lock()
	c.refused = true
	c.mu.Unlock()
	c.endStreams()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.running.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(drainTime):
	}
	c.endAsking()
	select {
	case <-ended:
	case <-time.After(cutTime):
	}
}

// begin counts a new call, unless the member is stopping. The call must call running.Done at its end.
func (c *calls) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused {
		return errStopping
	}
	c.running.Add(1)
	return nil
}

// unary serves a call with one answer.
func (c *calls) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, serve grpc.UnaryHandler) (any, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.asking, cancel)()
	answer, err := serve(ctx, request)
	if err != nil && c.asking.Err() != nil {
		err = errStopping
	}
	return answer, err
}

// stream serves a stream until its client or the member is done.
func (c *calls) stream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, serve grpc.StreamHandler) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.running.Done()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(c.streaming, cancel)()
	err := serve(server, bounded{stream, ctx})
	if c.streaming.Err() != nil {
		err = errStopping
	}
	return err
}

// bounded is a stream with an end of its own.
type bounded struct {
	grpc.ServerStream
	ctx context.Context
}

func (b bounded) Context() context.Context { return b.ctx }
