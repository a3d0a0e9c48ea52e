package daemon

import (
	"net/http"
	"time"
)

const (
	// paceTime is how long a client may take to accept a piece of an answer.
	paceTime = 10 * time.Second
	// pacePiece is the size of a piece. A client that reads less than 6.5 kB/s
	// is disconnected; one that reads more gets any answer whole.
	pacePiece = 64 << 10
)

// paced gives clients as much time for an answer as they need, provided that they continue to read it.
// Otherwise one deadline would apply to answers of all lengths.
func paced(next http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &pacedWriter{w, http.NewResponseController(w), limit}
		next.ServeHTTP(p, r)
		p.extend() // for the part of the answer that the server still buffers
	})
}

type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

// Write implements io.Writer.
func (p *pacedWriter) Write(b []byte) (written int, err error) {
	for {
		p.extend()
		n, err := p.ResponseWriter.Write(b[:min(pacePiece, len(b))])
		written += n
		if b = b[n:]; err != nil || len(b) == 0 {
			return written, err
		}
	}
}

// extend restarts the time for the next piece. Without deadlines, in tests of handlers alone, it does nothing.
func (p *pacedWriter) extend() { _ = p.control.SetWriteDeadline(time.Now().Add(p.limit)) }

// Unwrap lets http.ResponseController find what it controls.
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
