package daemon

import (
	"io"
	"net/http"

	"golang.org/x/sync/semaphore"

	"github.com/contiv/netplugin/utils/fault"
)

const (
	// smallBody is what every request may send, as most do: with all
	// connections in use that is as much as bodiesTotal.
	smallBody = 32 << 10
	// bodiesTotal is what larger bodies may occupy together.
	bodiesTotal = 64 << 20
)

// bodies bounds the memory that request bodies take, however many clients send
// large ones, and however slowly. What is received counts until the request has
// been answered; a client that would exceed the bound is told to come back. The
// small ones are bounded by the number of connections: with HTTP/2, which has
// many requests on one, they would have to count as well.
type bodies struct{ rest *semaphore.Weighted }

func newBodies() bodies { return bodies{semaphore.NewWeighted(bodiesTotal)} }

// limit wraps a handler.
func (b bodies) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &budgeted{ReadCloser: r.Body, rest: b.rest, free: smallBody}
		defer body.release()
		r.Body = body
		next.ServeHTTP(w, r)
	})
}

// budgeted is a body that takes from the bound as it is read.
type budgeted struct {
	io.ReadCloser
	rest       *semaphore.Weighted
	free, held int64
}

// Read implements io.Reader.
func (b *budgeted) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.free -= int64(n)
	if over := -b.free; over > 0 {
		b.free = 0
		if !b.rest.TryAcquire(over) {
			return 0, fault.New(fault.Unavailable, "too many large requests at the same time, try again later")
		}
		b.held += over
	}
	return n, err
}

func (b *budgeted) release() { b.rest.Release(b.held) }
