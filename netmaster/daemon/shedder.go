package daemon

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// shedder bounds the connections of a server. When there are too many, the one
// that has been silent longest is closed: ten thousand clients that connect and
// say nothing keep nobody out, and cost no more than the bound. A connection
// whose request is being answered is never closed. It counts one request per
// connection, which holds as long as the server speaks HTTP/1 only.
type shedder struct {
	limit int

	mu     sync.Mutex
	open   map[net.Conn]*list.Element // nil element: a request is being answered
	silent *list.List                 // of net.Conn, longest silent first
}

func newShedder(limit int) *shedder {
	return &shedder{limit: limit, open: map[net.Conn]*list.Element{}, silent: list.New()}
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

// add notes a connection and returns the one that has to go for it, if any.
func (s *shedder) add(conn net.Conn) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[conn] = s.silent.PushBack(conn)
	if len(s.open) <= s.limit {
		return nil
	}
	return s.silent.Remove(s.silent.Front()).(net.Conn)
}

func (s *shedder) remove(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.open[conn]; e != nil {
		s.silent.Remove(e)
	}
	delete(s.open, conn)
}

// connKey finds the connection of a request in its context.
type connKey struct{}

// remember is the server's ConnContext hook.
func (s *shedder) remember(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// guard wraps a handler so that the connections of its requests are not shed.
func (s *shedder) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		s.setBusy(conn, true)
		defer s.setBusy(conn, false)
		next.ServeHTTP(w, r)
	})
}

func (s *shedder) setBusy(conn net.Conn, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, open := s.open[conn]
	switch {
	case !open:
	case busy && e != nil:
		s.silent.Remove(e)
		s.open[conn] = nil
	case !busy && e == nil:
		s.open[conn] = s.silent.PushBack(conn)
	}
}

// count is the number of open connections.
func (s *shedder) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
