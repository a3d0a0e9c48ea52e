package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// transport is the HTTP transport of a load: the requesting goroutine itself writes the request to a connection of
// its own and reads the response. http.Transport uses two more goroutines per connection for that; that took 157
// us of processor time for a request instead of 88, of processors shared with the measured daemons.
type transport struct {
	dial func(context.Context) (net.Conn, error)

	mu   sync.Mutex
	idle []*connection
}

type connection struct {
	net.Conn
	in  *bufio.Reader
	out *bufio.Writer
}

// RoundTrip sends a request with time limit siteTime. The body of the response must be read and closed, as with
// any transport.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c, err := t.take(req.Context())
	if err != nil {
		return nil, err
	}
	resp, err := c.exchange(req)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL, err)
	}
	resp.Body = &answer{ReadCloser: resp.Body, connection: c, to: t, ends: resp.Close}
	return resp, nil
}

func (t *transport) take(ctx context.Context) (*connection, error) {
	t.mu.Lock()
	if last := len(t.idle) - 1; last >= 0 {
		c := t.idle[last]
		t.idle = t.idle[:last]
		t.mu.Unlock()
		return c, nil
	}
	t.mu.Unlock()
	raw, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{raw, bufio.NewReader(raw), bufio.NewWriter(raw)}, nil
}

func (c *connection) exchange(req *http.Request) (*http.Response, error) {
	if err := c.SetDeadline(time.Now().Add(siteTime)); err != nil {
		return nil, err
	}
	if err := req.Write(c.out); err != nil {
		return nil, err
	}
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.in, req)
}

// CloseIdleConnections closes the connections without a request.
func (t *transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.idle {
		c.Close()
	}
	t.idle = nil
}

// answer is a body that makes its connection reusable once it was read to its end.
type answer struct {
	io.ReadCloser
	connection *connection
	to         *transport
	ends       bool // the server will close the connection
	read       bool
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.read = a.read || err == io.EOF
	return n, err
}

func (a *answer) Close() error {
	err := a.ReadCloser.Close()
	if err != nil || a.ends || !a.read {
		a.connection.Close()
		return err
	}
	a.to.mu.Lock()
	defer a.to.mu.Unlock()
	a.to.idle = append(a.to.idle, a.connection)
	return nil
}
