package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/utils/logging"
)

// Limits of the HTTP server.
const (
	maxConnections = 2048 // fewer where the process may not open twice as many files
	maxHeader      = 32 << 10
	headerTime     = 5 * time.Second  // from the first byte of a request to the end of its header; also of a handshake
	requestTime    = 30 * time.Second // to the end of the body
	answerLimit    = 60 * time.Second // to the beginning of the answer; from there on, see pace.go
	idleTime       = 60 * time.Second
)

// server is the HTTP server of a netmaster.
type server struct {
	http    *http.Server
	conn    *shedder
	serving sync.WaitGroup
}

// newServer returns the server of a handler, with the handlers of every request in front of it.
func newServer(handler http.Handler, clients verifier, refusals *auth.EarlyRefusals, entry *logrus.Entry) *server {
	conn := newShedder(connectionLimit())
	s := &server{conn: conn}
	// Each wraps the one before: a request passes them from the last line to the first.
	handler = identify(handler, clients, refusals)
	handler = newBodies().limit(handler)
	handler = admit(handler, refusals)
	handler = paced(handler, paceTime)
	handler = conn.guard(handler)
	handler = s.timed(handler)
	handler = withRequestID(handler)
	s.http = &http.Server{
		Handler:           handler,
		ConnState:         conn.track,
		MaxHeaderBytes:    2 * maxHeader,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       requestTime,
		WriteTimeout:      answerLimit,
		IdleTimeout:       idleTime,
		ErrorLog:          logging.OfServer(entry),
	}
	s.http.ConnContext = s.began
	return s
}

// began is the hook of a new connection, before anything is read from it.
func (s *server) began(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*connection); ok {
		c.idle, c.header = s.http.IdleTimeout, s.http.ReadHeaderTimeout
	}
	return s.conn.remember(ctx, conn)
}

// timed gives each body its time. net/http counts it from the beginning of a connection, for its first request: after a
// silence there would be none left.
func (s *server) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && s.http.ReadTimeout > 0 { // else net/http already reads on, to notice when the client goes
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.http.ReadTimeout)) // of a connection that is open
		}
		next.ServeHTTP(w, r)
	})
}

// withRequestID gives each request an id, which its response has, too.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest.Identify(w, r)
		next.ServeHTTP(w, r)
	})
}

// connectionLimit returns the limit of connections, which leaves half of the files that a process may open for other
// uses.
func connectionLimit() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return maxConnections
	}
	return int(min(maxConnections, files.Cur/2))
}

// start serves at listeners until stop. The channel receives why one has ended before.
func (s *server) start(listeners []net.Listener) (failed <-chan error) {
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		s.serving.Go(func() {
			if err := s.serve(l); err != nil {
				ended <- err
			}
		})
	}
	return ended
}

// serve accepts connections until stop; only another end is an error.
func (s *server) serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stop closes the listeners, waits for requests in flight and then closes the remaining connections.
func (s *server) stop(drain time.Duration) error {
	defer s.serving.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return s.http.Close()
}
