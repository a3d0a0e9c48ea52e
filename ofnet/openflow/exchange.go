package openflow

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/contiv/netplugin/utils/fault"
)

// exchange is a request that waits for its reply.
type exchange struct {
	xid     uint32 // 0: not sent
	request Message
	parts   []byte // of a multipart reply
	max     int
	stream  *stream // set if the parts are delivered one by one
	reply   Message
	err     error
	done    chan struct{} // closed when reply or err is set; nil if nothing waits for that
}

// finish sets the outcome. The caller holds the connection's lock and calls it once only.
func (x *exchange) finish(reply Message, err error) {
	x.reply, x.err = reply, err
	if x.done != nil {
		close(x.done)
	}
}

// part adds a part of a reply and reports whether the reply is complete.
func (x *exchange) part(r multipartReply) (complete bool, err error) {
	request, ok := x.request.(multipartRequest)
	if !ok || request.kind != r.kind {
		return true, unexpected(r, x.request)
	}
	if x.stream != nil {
		return !r.more, nil
	}
	if len(x.parts)+len(r.body) > x.max {
		return true, fault.New(fault.TooLarge, "answer to %s exceeds %d bytes", x.request, x.max)
	}
	x.parts = append(x.parts, r.body...)
	return !r.more, nil
}

func unexpected(reply, request Message) error {
	return fmt.Errorf("switch answers %s with %s", request, reply)
}

// prepare registers requests and returns their concatenated encoding.
func (c *Conn) prepare(requests ...*exchange) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	e := &encoder{b: make([]byte, 0, 256*len(requests))}
	for _, x := range requests {
		xid, m := c.nextXID(), x.request
		if add, ok := m.(bundleAdd); ok {
			add.xid = xid
			m = add
		}
		e.message(xid, m)
		if e.err != nil {
			return nil, fault.New(fault.Invalid, "%s: %w", m, e.err)
		}
		x.xid, x.max = xid, c.options.MaxReply
		c.waiting[xid] = x
	}
	return e.b, nil
}

// nextXID returns an id that no pending request uses. It skips 0, which switches use for messages that
// are not replies.
func (c *Conn) nextXID() uint32 {
	for {
		c.xid++
		if _, taken := c.waiting[c.xid]; c.xid != 0 && !taken {
			return c.xid
		}
	}
}

// forget removes requests whose reply is no longer needed.
func (c *Conn) forget(requests ...*exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range requests {
		delete(c.waiting, x.xid)
	}
}

// begin sends all requests or none.
func (c *Conn) begin(ctx context.Context, requests ...*exchange) error {
	b, err := c.prepare(requests...)
	if err == nil {
		err = c.queue(ctx, b)
	}
	if err != nil {
		c.forget(requests...)
	}
	return err
}

// ask sends a request that has a reply; the caller must call forget for it.
func (c *Conn) ask(ctx context.Context, request Message, s *stream) (*exchange, error) {
	x := &exchange{request: request, stream: s, done: make(chan struct{})}
	return x, c.begin(ctx, x)
}

// call sends a request and returns its reply.
func (c *Conn) call(ctx context.Context, request Message) (Message, error) {
	x, err := c.ask(ctx, request, nil)
	if err != nil {
		return nil, err
	}
	defer c.forget(x)
	return c.await(ctx, x)
}

// await returns the reply to a request.
func (c *Conn) await(ctx context.Context, x *exchange) (Message, error) {
	select {
	case <-x.done:
		return x.reply, x.err
	case <-ctx.Done():
		return nil, c.lateFor(ctx, x.request)
	}
}

// lateFor returns the error of a request whose context has ended.
func (c *Conn) lateFor(ctx context.Context, request Message) error {
	return fault.New(fault.Unavailable, "switch %s: %s: %w", c.target, request, ctx.Err())
}

// Barrier returns when the switch has processed all earlier messages.
func (c *Conn) Barrier(ctx context.Context) error {
	reply, err := c.call(ctx, BarrierRequest{})
	if err != nil {
		return err
	}
	if _, ok := reply.(BarrierReply); !ok {
		return unexpected(reply, BarrierRequest{})
	}
	return nil
}

// Send sends messages that have no reply, waits until the switch has processed them, and returns the
// first refusal. The messages are independent: those that are not refused take effect.
func (c *Conn) Send(ctx context.Context, messages ...Message) error {
	refusals, err := c.SendEach(ctx, messages...)
	return cmp.Or(append([]error{err}, refusals...)...)
}

// SendEach is Send with one result per message: nil if it took effect, else why it was refused. If err
// is set, it is unknown which messages the switch has processed.
func (c *Conn) SendEach(ctx context.Context, messages ...Message) (refusals []error, err error) {
	sent, err := c.post(ctx, messages...)
	defer c.forget(sent...)
	if err != nil {
		return nil, err
	}
	if err := c.Barrier(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range sent {
		refusals = append(refusals, x.err)
	}
	return refusals, nil
}

// postPiece is how many messages are encoded before they are sent, so that the switch processes them
// while the next are encoded.
const postPiece = 1024

// post sends messages whose only reply can be an error. After a barrier the caller must call forget
// for those that were sent, which may be only some of them.
func (c *Conn) post(ctx context.Context, messages ...Message) (sent []*exchange, err error) {
	all := make([]exchange, len(messages))
	list := make([]*exchange, len(messages))
	for i, m := range messages {
		all[i].request = m
		list[i] = &all[i]
	}
	for piece := range slices.Chunk(list, postPiece) {
		if err := c.begin(ctx, piece...); err != nil {
			return sent, err
		}
		sent = list[:len(sent)+len(piece)]
	}
	return sent, nil
}

// refusal returns the first refusal of messages that the switch has processed.
func (c *Conn) refusal(sent []*exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range sent {
		if x.err != nil {
			return x.err
		}
	}
	return nil
}
