package openflow

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

const (
	sendQueue  = 64   // writes that wait to be sent
	eventQueue = 1024 // events that wait for OnEvent
	writePiece = 1 << 18
)

// errClosed is the error of connections that this side closed.
var errClosed = errors.New("closed")

// Conn is a connection to a switch. Its methods are safe for concurrent use.
//
// It has one goroutine each to read, to write, to probe the switch and to deliver events. The first
// failure of any of them ends the connection, and with it every call that waits for an answer.
type Conn struct {
	target   string
	options  Options
	features Features
	nc       net.Conn
	out      chan []byte
	echoes   chan []byte // replies to echo requests of the switch; they are sent before what waits in out
	events   chan Message
	dropped  atomic.Uint64
	lastRead atomic.Int64 // nanoseconds since start
	started  time.Time
	bundles  atomic.Uint32
	garbled  uint64 // messages ignored; used by the reader only

	life    context.Context // ends with the connection
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	err     error // why it ended
	xid     uint32
	waiting map[uint32]*exchange
}

func newConn(nc net.Conn, target string, options Options) *Conn {
	life, end := context.WithCancel(context.Background())
	c := &Conn{
		target: target, options: options, nc: nc, started: time.Now(),
		out: make(chan []byte, sendQueue), echoes: make(chan []byte, sendQueue),
		events: make(chan Message, eventQueue),
		life:   life, end: end, waiting: make(map[uint32]*exchange), xid: 1,
	}
	for _, work := range []func() error{c.read, c.write, c.probe, c.deliver} {
		c.running.Add(1)
		go func() {
			defer c.running.Done()
			c.fail(work())
		}()
	}
	return c
}

// fail ends the connection with err; later calls have no effect.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || err == nil {
		return
	}
	c.err = fault.New(fault.Unavailable, "connection to switch %s: %w", c.target, err)
	for _, x := range c.waiting {
		x.finish(nil, c.err)
	}
	c.waiting = nil
	c.end()
	// Ends the reader and the writer. An error of Close has no receiver.
	_ = c.nc.Close()
}

// Close ends the connection and returns when all its goroutines have ended. OnEvent must not call it.
func (c *Conn) Close() {
	c.fail(errClosed)
	c.running.Wait()
}

// Done returns a channel that is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.life.Done() }

// Err returns why the connection has ended, or nil while it is open.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Features returns the features that the switch reported in the handshake.
func (c *Conn) Features() Features { return c.features }

// Dropped returns the number of events dropped because OnEvent was too slow.
func (c *Conn) Dropped() uint64 { return c.dropped.Load() }

// write sends the queued bytes.
func (c *Conn) write() error {
	for {
		var b []byte
		select {
		case <-c.life.Done():
			return nil
		case b = <-c.echoes:
		case b = <-c.out:
		}
		if err := c.put(b); err != nil {
			return err
		}
	}
}

// put writes bytes. A bundle may have millions of them, so WriteTimeout applies to each piece, not to
// the whole.
func (c *Conn) put(b []byte) error {
	for piece := range slices.Chunk(b, writePiece) {
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.options.WriteTimeout)); err != nil {
			return err
		}
		if _, err := c.nc.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// queue passes bytes to the writer.
func (c *Conn) queue(ctx context.Context, b []byte) error {
	select {
	case c.out <- b:
		return nil
	case <-c.life.Done():
		return c.Err()
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "switch %s: %w", c.target, ctx.Err())
	}
}

// probe sends an echo request, unless something was received recently.
func (c *Conn) probe() error {
	ticker := time.NewTicker(c.options.EchoInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.life.Done():
			return nil
		case <-ticker.C:
		}
		if c.silence() < c.options.EchoInterval {
			continue
		}
		if err := c.echo(); err != nil {
			return err
		}
	}
}

func (c *Conn) silence() time.Duration {
	return time.Since(c.started) - time.Duration(c.lastRead.Load())
}

func (c *Conn) echo() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.options.EchoTimeout)
	defer cancel()
	reply, err := c.call(ctx, EchoRequest{Data: []byte("alive?")})
	if err != nil {
		// Anything received meanwhile counts as an answer: the switch may be busy.
		if ctx.Err() != nil && c.silence() < c.options.EchoTimeout {
			return nil
		}
		return err
	}
	if _, ok := reply.(EchoReply); !ok {
		return unexpected(reply, EchoRequest{})
	}
	return nil
}

// deliver passes events to OnEvent.
func (c *Conn) deliver() error {
	for {
		select {
		case <-c.life.Done():
			return nil
		case m := <-c.events:
			c.options.OnEvent(m)
		}
	}
}
