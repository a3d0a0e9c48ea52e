package nameserver

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// serveStreams serves the connections of a listener until ctx is done, and closes them and the listener.
func (s *Server) serveStreams(ctx context.Context, listener net.Listener) error {
	var open sync.WaitGroup
	defer open.Wait()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		return ignoreClosed(listener.Close())
	})
	group.Go(func() error {
		pause := retry.NewPacer(firstRetry, lastRetry)
		for {
			conn, err := listener.Accept()
			switch {
			case ctx.Err() != nil && err != nil:
				return nil
			case err == nil:
				pause.Reset()
				open.Go(func() { (&stream{Server: s, conn: conn, asker: askerOf(conn.RemoteAddr())}).serve(ctx) })
			case isTemporary(err):
				s.Log.WithError(err).Debug("connection not accepted")
				pause.Sleep(ctx)
			default:
				return fault.New(fault.Internal, "name server: %w", err)
			}
		}
	})
	return group.Wait()
}

// isTemporary reports whether an error of accept is temporary, so that the next connection may be accepted.
func isTemporary(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno.Temporary()
}

// stream is a connection. Each query is answered as soon as its answer is known, in any order (RFC 7766, section
// 6.2.1.1): from Zones and the cache at once; forwarded ones each in a goroutine of its own, maxAtOnce at a time.
type stream struct {
	*Server
	conn  net.Conn
	asker netip.Addr

	writing sync.Mutex
}

// serve answers until the client ends the connection, has sent maxOnConnection queries, or has sent none for too long. It
// closes the connection when all answers are sent.
func (c *stream) serve(ctx context.Context) {
	defer c.conn.Close()
	defer context.AfterFunc(ctx, func() { _ = c.conn.Close() })() // when the server ends
	var waiting errgroup.Group
	waiting.SetLimit(maxAtOnce)
	defer func() { _ = waiting.Wait() }() // no goroutine fails
	wait := questionTime
	for range maxOnConnection {
		data, err := c.read(wait)
		if err != nil {
			return
		}
		c.take(ctx, data, func(find func() []byte) {
			waiting.Go(func() error {
				c.write(find())
				return nil
			})
		})
		wait = idleTime
	}
}

// take answers a message. For a forwarded query, it passes to later the function that waits for the answer.
func (c *stream) take(ctx context.Context, data []byte, later func(find func() []byte)) {
	tenant, known := c.Tenant(c.asker)
	m, refusal := c.question(data, tenant, known)
	if m == nil {
		c.write(refusal)
		return
	}
	reply, by := c.reply(tenant, m)
	if by == forwarded {
		later(func() []byte { // do not start the query before later runs this: other clients may wait for a query once it is in progress
			if find := c.forward(tenant, c.asker, reply, false); find != nil {
				find(ctx)
			}
			return c.packWithin(dns.MaxMsgSize, reply, m)
		})
		return
	}
	c.write(c.packWithin(dns.MaxMsgSize, reply, m))
}

// lengthBytes is the size of the length field before each message.
const lengthBytes = 2

// read reads a message.
func (c *stream) read(wait time.Duration) ([]byte, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, err
	}
	var length [lengthBytes]byte
	if _, err := io.ReadFull(c.conn, length[:]); err != nil {
		return nil, err
	}
	data := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(c.conn, data)
	return data, err
}

// write sends an answer, if there is one. If only a part can be sent, the connection is closed: its client could
// not decode anything after that.
func (c *stream) write(answer []byte) {
	if len(answer) == 0 {
		return
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	err := c.conn.SetWriteDeadline(time.Now().Add(questionTime))
	if err == nil {
		_, err = c.conn.Write(append(binary.BigEndian.AppendUint16(make([]byte, 0, lengthBytes+len(answer)), uint16(len(answer))), answer...))
	}
	if err != nil {
		c.Log.WithError(err).WithField("asker", c.asker).Debug("answer not sent")
		_ = c.conn.Close()
	}
}
