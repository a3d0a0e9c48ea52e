package daemon

import (
	"container/list"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// shedder limits the connections of a server. When there are too many, the one that has been idle longest is
// closed, so ten thousand clients that connect and send nothing keep no other out, and cost no more than the
// limit. A connection is idle until a whole request has been received, with its body, and again after the
// answer; it is never closed while a request is being answered.
//
// One source address may have an eighth of all connections idle; beyond that, the one of them that has been
// idle longest is closed. Connections with a request in progress do not count: a netmaster that forwards
// hundreds of watches has as much room for new connections as others.
//
// It counts one request per connection, which holds because the server serves HTTP/1 only.
type shedder struct {
	limit, share int // of all, and of the idle ones of one address

	mu      sync.Mutex
	open    map[net.Conn]*list.Element // nil element: a request is being answered, or it is being closed
	silent  *list.List                 // of net.Conn, longest idle first
	sources map[netip.Addr]int         // number of idle ones from each address

	answering int           // requests
	none      chan struct{} // closed when there is none; nil: nothing waits
}

// shareOf is the part of all connections that may be idle ones of one address: 256 of 2048.
const shareOf = 8

func newShedder(limit int) *shedder {
	return &shedder{limit: limit, share: max(1, limit/shareOf), open: map[net.Conn]*list.Element{}, silent: list.New(), sources: map[netip.Addr]int{}}
}

// sourceOf returns the source address of a connection; zero for local ones, by loopback or the
// socket: their users have other limits.
func sourceOf(conn net.Conn) (source netip.Addr) {
	if at, isTCP := conn.RemoteAddr().(*net.TCPAddr); isTCP && !at.IP.IsLoopback() {
		source = at.AddrPort().Addr().Unmap()
	}
	return source
}

// track is the server's ConnState hook.
func (s *shedder) track(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if victim := s.add(conn); victim != nil {
			_ = victim.Close() // the server notices and forgets it
		}
	case http.StateClosed, http.StateHijacked:
		s.remove(conn)
	}
}

// add adds a connection and returns the one to close for it, if any.
func (s *shedder) add(conn net.Conn) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addIdle(conn)
	source := sourceOf(conn)
	victim := s.silent.Front()
	switch {
	case len(s.open) > s.limit:
	case source.IsValid() && s.sources[source] > s.share:
		for sourceOf(victim.Value.(net.Conn)) != source { // the new one is the last
			victim = victim.Next()
		}
	default:
		return nil
	}
	goes := victim.Value.(net.Conn)
	s.wake(goes)
	return goes
}

// addIdle adds a connection at the end of the idle ones. The caller holds the lock.
func (s *shedder) addIdle(conn net.Conn) {
	s.open[conn] = s.silent.PushBack(conn)
	s.sources[sourceOf(conn)]++
}

// wake removes an open connection from the idle ones, if it is one. The caller holds the lock.
func (s *shedder) wake(conn net.Conn) {
	e := s.open[conn]
	if e == nil {
		return
	}
	s.silent.Remove(e)
	s.open[conn] = nil
	if source := sourceOf(conn); s.sources[source] > 1 {
		s.sources[source]--
	} else {
		delete(s.sources, source)
	}
}

func (s *shedder) remove(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake(conn)
	delete(s.open, conn)
}

// connKey is the context key of a request's connection.
type connKey struct{}

// remember returns the context of a connection's requests.
func (s *shedder) remember(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// guard wraps a handler so that the connections of its requests are not closed.
func (s *shedder) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		s.begin()
		defer s.end()
		s.setBusy(conn)
		defer s.setIdle(conn)
		if r.ContentLength != 0 {
			s.setIdle(conn) // as the newest: connections that have sent less are closed first
			r.Body = &arriving{r.Body, func() { s.setBusy(conn) }}
		}
		next.ServeHTTP(w, r)
	})
}

// arriving is the body of a request.
type arriving struct {
	io.ReadCloser
	ended func() // called where it ends, or on a read error
}

// Read implements io.Reader.
func (b *arriving) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.ended()
	}
	return n, err
}

func (s *shedder) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answering++
}

func (s *shedder) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answering--; s.answering == 0 && s.none != nil {
		close(s.none)
		s.none = nil
	}
}

// awaitAnswered waits until no request is being served, whether or not its connection is open, or ctx
// ends. Only one goroutine may wait.
func (s *shedder) awaitAnswered(ctx context.Context) {
	s.mu.Lock()
	none := make(chan struct{})
	if s.none = none; s.answering == 0 {
		close(none)
		s.none = nil
	}
	s.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

// setBusy makes a connection one that is not closed.
func (s *shedder) setBusy(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[conn]; open {
		s.wake(conn)
	}
}

// setIdle makes a busy connection the newest of the idle ones.
func (s *shedder) setIdle(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, open := s.open[conn]; open && e == nil {
		s.addIdle(conn)
	}
}

// count returns the number of open connections.
func (s *shedder) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
