package gate

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// A client that opens streams and resets them at once has as many open as it likes, one after the other, and each of them is begun
// and thrown away here (CVE-2023-44487). So resets are counted, and a connection with too many of them ends.
const (
	mostResets = 100
	resetTime  = 10 * time.Second // in which they are counted
)

// resets counts the streams of a connection that its client has reset.
type resets struct {
	mu    sync.Mutex
	since time.Time
	n     int
}

// another counts one more, and tells whether that is too many.
func (r *resets) another(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) > resetTime {
		r.since, r.n = now, 0
	}
	r.n++
	return r.n > mostResets
}

// ended notes the end of a call. A client whose own time for it is over has not reset it.
func (g *Gate) ended(ctx context.Context) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	p, _ := peer.FromContext(ctx)
	c, ok := p.AuthInfo.(*caller)
	if !ok || !c.resets.another(time.Now()) {
		return
	}
	if c.budget.warn(time.Now()) {
		g.log.WithField("node", c.host).Warnf("it has reset more than %d streams of its connection within %s: the connection ends", mostResets, resetTime)
	}
	c.cut()
}

// resetsOf are the options of a server that counts resets.
func resetsOf(g *Gate) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			defer g.ended(ctx)
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			defer g.ended(stream.Context())
			return handler(srv, stream)
		}),
	}
}
