package daemon

import (
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/utils/fault"
)

const (
	// smallBody is the size up to which bodies do not count, as most: with all connections in use
	// these take as much as bodiesTotal.
	smallBody = 32 << 10
	// bodiesTotal is the limit of the memory for all larger bodies.
	bodiesTotal = 64 << 20
	// bodiesOfOne is the limit for one source address, or one /64 of IPv6; local connections have none.
	bodiesOfOne = bodiesTotal / 2
)

// bodies limits the memory of request bodies, however many clients send large ones, and however slowly.
// Received bytes count until the request has been answered; a client that would exceed the limit is answered to
// retry later. Small bodies are limited by the number of connections: with HTTP/2, which has many requests on
// one connection, they would have to count as well.
type bodies struct {
	mu   sync.Mutex
	held int64
	of   map[string]int64 // by source
}

func newBodies() *bodies { return &bodies{of: map[string]int64{}} }

// limit wraps a handler.
func (b *bodies) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &budgeted{ReadCloser: r.Body, all: b, free: smallBody}
		if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			if source := sourceOf(conn); source.IsValid() {
				body.source = accounts.Source(source.String())
			}
		}
		defer body.release()
		r.Body = body
		next.ServeHTTP(w, r)
	})
}

// take counts bytes, and returns false if they would exceed a limit.
func (b *bodies) take(source string, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+bytes > bodiesTotal || source != "" && b.of[source]+bytes > bodiesOfOne {
		return false
	}
	b.held += bytes
	b.of[source] += bytes
	return true
}

// give releases counted bytes.
func (b *bodies) give(source string, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= bytes
	if b.of[source] -= bytes; b.of[source] == 0 {
		delete(b.of, source)
	}
}

// budgeted is a body that counts against the limit as it is read.
type budgeted struct {
	io.ReadCloser
	all        *bodies
	source     string // empty: a local connection
	free, held int64
}

// Read implements io.Reader.
func (b *budgeted) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.free -= int64(n)
	if over := -b.free; over > 0 {
		b.free = 0
		if !b.all.take(b.source, over) {
			return 0, fault.New(fault.Unavailable, "too many large requests at the same time, try again later")
		}
		b.held += over
	}
	return n, err
}

func (b *budgeted) release() { b.all.give(b.source, b.held) }
