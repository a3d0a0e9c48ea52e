package ovsdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// Defaults of Options.
const (
	defaultMaxMessage    = 64 << 20
	defaultProbeInterval = 5 * time.Second
	writeTimeout         = 10 * time.Second
)

// connectionOptions says how a connection is watched; the zero value is usable.
type connectionOptions struct {
	MaxMessage    int                                               // bytes; a longer message ends the connection
	ProbeInterval time.Duration                                     // silence after which the peer is probed, and time to answer; negative: no probes
	Notify        func(method string, params json.RawMessage) error // called in the order of arrival; an error ends the connection
}

// connection is one connection to a database server. It is safe for concurrent use.
type connection struct {
	stream  net.Conn
	options connectionOptions
	started time.Time
	heard   atomic.Int64 // when the last byte was received, in nanoseconds since started: independent of changes of the clock

	writing sync.Mutex // guards the stream: one message at a time

	mu      sync.Mutex
	nextID  uint64
	pending map[uint64]pendingCall
	err     error // why the connection ended

	done    chan struct{}
	workers sync.WaitGroup
}

// pendingCall is a request without a response. The reader handles the response before the next message: a
// monitor's snapshot must be applied before the first update.
type pendingCall struct {
	handle func(result json.RawMessage) error
	answer chan error
}

// message is a request, a notification or a response of JSON-RPC 1.0.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// dial connects to "unix:/path/of/db.sock" or "tcp:host:port".
func dial(ctx context.Context, target string, options connectionOptions) (*connection, error) {
	network, address, ok := strings.Cut(target, ":")
	if !ok || (network != "unix" && network != "tcp") {
		return nil, fault.New(fault.Invalid, "ovsdb target %q: unix:PATH or tcp:HOST:PORT expected", target)
	}
	var dialer net.Dialer
	stream, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "ovsdb %s: %w", target, err)
	}
	return newConnection(stream, options), nil
}

// newConnection returns a connection over an established stream, and takes ownership of the stream.
func newConnection(stream net.Conn, options connectionOptions) *connection {
	if options.MaxMessage <= 0 {
		options.MaxMessage = defaultMaxMessage
	}
	if options.ProbeInterval == 0 {
		options.ProbeInterval = defaultProbeInterval
	}
	c := &connection{stream: stream, options: options, started: time.Now(), pending: map[uint64]pendingCall{}, done: make(chan struct{})}
	c.workers.Go(c.read)
	if options.ProbeInterval > 0 {
		c.workers.Go(c.probe)
	}
	return c
}

// Done returns a channel that is closed when the connection has ended.
func (c *connection) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, or nil while it is open.
func (c *connection) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and waits for its goroutines. Notify must not call it.
func (c *connection) Close() error {
	c.end(net.ErrClosed)
	c.workers.Wait()
	return nil
}

// end closes the stream and fails all pending calls.
func (c *connection) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = fault.New(fault.Unavailable, "ovsdb connection ended: %w", cause)
	_ = c.stream.Close() // the peer needs no further message
	for id, call := range c.pending {
		delete(c.pending, id)
		call.answer <- c.err
	}
	close(c.done)
}

// Call sends a request and decodes the result of the response into result, unless that is nil.
func (c *connection) Call(ctx context.Context, method string, params, result any) error {
	return c.call(ctx, method, params, func(raw json.RawMessage) error {
		if result == nil {
			return nil
		}
		return json.Unmarshal(raw, result)
	})
}

// keepConn is an error of a call after which the connection remains usable.
type keepConn struct{ error }

func (k keepConn) Unwrap() error { return k.error }

func (k keepConn) orNil() error {
	if k.error == nil {
		return nil
	}
	return k
}

// call sends a request; the reader calls handle with the response. An error of handle means that the response is
// malformed and ends the connection, unless it is a keepConn.
func (c *connection) call(ctx context.Context, method string, params any, handle func(json.RawMessage) error) error {
	rawParams, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("ovsdb %s: %w", method, err)
	}
	call := pendingCall{handle: handle, answer: make(chan error, 1)}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.nextID++
	id := c.nextID
	c.pending[id] = call
	c.mu.Unlock()

	c.send(message{ID: json.RawMessage(strconv.FormatUint(id, 10)), Method: &method, Params: rawParams})
	select {
	case err := <-call.answer:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	_, unanswered := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if !unanswered {
		return <-call.answer // being handled at this moment
	}
	return fault.New(fault.Unavailable, "ovsdb %s: no answer: %w", method, context.Cause(ctx))
}

// send writes one message. A failure ends the connection and thereby every pending call, so it returns no error.
func (c *connection) send(m message) {
	raw, err := json.Marshal(m)
	if err != nil {
		c.end(err)
		return
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.stream.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		c.end(err)
		return
	}
	if _, err := c.stream.Write(raw); err != nil {
		c.end(err)
	}
}

// read handles received messages until the connection ends.
func (c *connection) read() {
	limited := &limitedReader{conn: c}
	decoder := json.NewDecoder(limited)
	for {
		limited.left = c.options.MaxMessage
		var m message
		if err := decoder.Decode(&m); err != nil {
			c.end(err)
			return
		}
		if err := c.receive(m); err != nil {
			c.end(err)
			return
		}
	}
}

// receive handles one message; an error means that it is malformed.
func (c *connection) receive(m message) error {
	hasID := len(m.ID) > 0 && !bytes.Equal(m.ID, []byte("null"))
	switch {
	case m.Method == nil && hasID:
		return c.receiveAnswer(m)
	case m.Method == nil:
		return errors.New("message with neither method nor id")
	case *m.Method == "echo" && hasID:
		c.send(message{ID: m.ID, Result: orNull(m.Params), Error: json.RawMessage("null")})
		return nil
	case hasID:
		c.send(message{ID: m.ID, Result: json.RawMessage("null"), Error: json.RawMessage(`"unknown method"`)})
		return nil
	case c.options.Notify != nil:
		if err := c.options.Notify(*m.Method, m.Params); err != nil {
			return fmt.Errorf("notification %q: %w", *m.Method, err)
		}
	}
	return nil
}

func (c *connection) receiveAnswer(m message) error {
	id, err := strconv.ParseUint(string(m.ID), 10, 64)
	if err != nil {
		return fmt.Errorf("answer with id %s, which we never gave", brief(m.ID))
	}
	c.mu.Lock()
	call, ok := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if !ok {
		return nil // the caller has given up
	}
	if len(m.Error) > 0 && !bytes.Equal(m.Error, []byte("null")) {
		call.answer <- fault.New(fault.Internal, "ovsdb server refused the request: %s", brief(m.Error))
		return nil
	}
	err = call.handle(orNull(m.Result))
	var keep keepConn
	if errors.As(err, &keep) {
		call.answer <- keep.error
		return nil
	}
	call.answer <- err
	return err
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// probe sends an echo request after a time of silence, and ends the connection if nothing is received: a peer that
// hangs does not close its socket.
func (c *connection) probe() {
	interval := c.options.ProbeInterval
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	method := "echo"
	var asked time.Time
	for {
		var now time.Time
		select {
		case <-c.done:
			return
		case now = <-ticker.C:
		}
		heard := c.started.Add(time.Duration(c.heard.Load()))
		switch {
		case now.Sub(heard) < interval:
			asked = time.Time{}
		case asked.Before(heard):
			asked = now
			// No call has id 0: it is enough that the response arrives.
			c.send(message{ID: json.RawMessage("0"), Method: &method, Params: json.RawMessage("[]")})
		default:
			c.end(fmt.Errorf("silent for %s", now.Sub(heard).Round(time.Millisecond)))
			return
		}
	}
}

// limitedReader limits the size of a message. The decoder reads ahead, so the limit is exact to within its buffer.
type limitedReader struct {
	conn *connection
	left int
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("message of more than %d bytes", l.conn.options.MaxMessage)
	}
	n, err := l.conn.stream.Read(p[:min(len(p), l.left)])
	l.left -= n
	if n > 0 {
		l.conn.heard.Store(int64(time.Since(l.conn.started)))
	}
	if err == io.EOF {
		err = errors.New("closed by the server")
	}
	return n, err
}
