package gate

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// A client that opens streams and resets them at once can open any number, one after the other, and each is
// started and dropped here (CVE-2023-44487) before a limit of requests applies. So both are counted, and a
// connection with too many is closed.
const (
	mostResets = 100              // within countTime
	mostBegun  = 1000             // calls within countTime: nodeRate and nodeBurst allow 700
	countTime  = 10 * time.Second // the period of counting
)

// streamCounts are the counts of a connection.
type streamCounts struct {
	mu            sync.Mutex
	since         time.Time
	begun, resets int
}

// add counts, and reports whether the limits are exceeded.
func (c *streamCounts) add(begun, resets int, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since) > countTime {
		c.since, c.begun, c.resets = now, 0, 0
	}
	c.begun += begun
	c.resets += resets
	return c.begun > mostBegun || c.resets > mostResets
}

// counting counts the streams of all connections.
type counting struct{ g *Gate }

// TagConn implements stats.Handler.
func (counting) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (counting) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC implements stats.Handler.
func (counting) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler. It counts calls that were reset, which fail because their client has gone;
// the context of each call is done at its end, and cannot show that.
func (s counting) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if end, is := event.(*stats.End); is && status.Code(end.Error) == codes.Canceled {
		s.count(ctx, 0, 1)
	}
}

// begin counts each stream before it is handled, including streams without a
// call. A client that is not a node any more is refused at once: a request is
// read completely before its call begins, and a client could leave it unfinished.
func (s counting) begin(ctx context.Context, call *tap.Info) (context.Context, error) {
	s.count(ctx, 1, 0)
	_, err := s.g.member(ctx, call.FullMethodName)
	return ctx, err
}

func (s counting) count(ctx context.Context, begun, resets int) {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return
	}
	c, ok := p.AuthInfo.(*caller)
	if !ok || !c.streams.add(begun, resets, time.Now()) {
		return
	}
	if c.budget.shouldLog(time.Now()) {
		s.g.log.WithField("node", c.host).Warnf("it has begun more than %d calls, or reset more than %d, on one connection within %s: the connection ends", mostBegun, mostResets, countTime)
	}
	c.cut()
}
