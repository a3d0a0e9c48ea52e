package openflow

import (
	"context"
	"fmt"

	"github.com/contiv/netplugin/utils/fault"
)

// exchange is a request that waits for its answer.
type exchange struct {
	request Message
	parts   []byte // of a reply that has several
	max     int
	stream  *stream // if the parts are wanted one by one
	reply   Message
	err     error
	done    chan struct{} // closed when reply or err is set
}

// finish sets the outcome. It is called under the connection's lock, and once.
func (x *exchange) finish(reply Message, err error) {
	x.reply, x.err = reply, err
	close(x.done)
}

// part adds a part of a reply and tells whether the reply is complete.
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

// prepare registers requests and makes their wire form, one after the other.
// An error leaves nothing registered.
func (c *Conn) prepare(requests ...Message) ([]*exchange, []uint32, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, nil, nil, c.err
	}
	e := &encoder{b: make([]byte, 0, 256*len(requests))}
	exchanges, xids := make([]*exchange, len(requests)), make([]uint32, len(requests))
	for i, m := range requests {
		xids[i] = c.nextXID()
		exchanges[i] = &exchange{request: m, max: c.options.MaxReply, done: make(chan struct{})}
		if add, ok := m.(bundleAdd); ok {
			add.xid = xids[i]
			m = add
		}
		e.message(xids[i], m)
		if e.err != nil {
			c.forgetLocked(xids[:i])
			return nil, nil, nil, fault.New(fault.Invalid, "%s: %w", m, e.err)
		}
		c.waiting[xids[i]] = exchanges[i]
	}
	return exchanges, xids, e.b, nil
}

// nextXID returns an id that no waiting request has. It skips 0, which
// switches use for messages that answer nothing.
func (c *Conn) nextXID() uint32 {
	for {
		c.xid++
		if _, taken := c.waiting[c.xid]; c.xid != 0 && !taken {
			return c.xid
		}
	}
}

// forget gives requests up whose answer nobody wants any more.
func (c *Conn) forget(xids []uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(xids)
}

func (c *Conn) forgetLocked(xids []uint32) {
	for _, xid := range xids {
		delete(c.waiting, xid)
	}
}

// call sends a request and waits for its answer.
func (c *Conn) call(ctx context.Context, request Message) (Message, error) {
	exchanges, xids, b, err := c.prepare(request)
	if err != nil {
		return nil, err
	}
	defer c.forget(xids)
	if err := c.queue(ctx, b); err != nil {
		return nil, err
	}
	return c.await(ctx, exchanges[0])
}

// await waits for the answer to a request.
func (c *Conn) await(ctx context.Context, x *exchange) (Message, error) {
	select {
	case <-x.done:
		return x.reply, x.err
	case <-ctx.Done():
		return nil, c.lateFor(ctx, x.request)
	}
}

// lateFor is the error of a request whose context is over.
func (c *Conn) lateFor(ctx context.Context, request Message) error {
	return fault.New(fault.Unavailable, "switch %s: %s: %w", c.target, request, ctx.Err())
}

// Barrier waits until the switch has done all that was sent before.
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

// Send sends messages that are not answered, waits until the switch has done
// them, and returns what it refused, the first thing first. Each message
// stands for itself: those that are not refused take effect.
func (c *Conn) Send(ctx context.Context, messages ...Message) error {
	exchanges, xids, err := c.post(ctx, messages...)
	if err != nil {
		return err
	}
	defer c.forget(xids)
	if err := c.Barrier(ctx); err != nil {
		return err
	}
	return firstError(exchanges)
}

// post sends messages whose only answer can be an error. The caller forgets
// them after a barrier.
func (c *Conn) post(ctx context.Context, messages ...Message) ([]*exchange, []uint32, error) {
	exchanges, xids, b, err := c.prepare(messages...)
	if err != nil {
		return nil, nil, err
	}
	if err := c.queue(ctx, b); err != nil {
		c.forget(xids)
		return nil, nil, err
	}
	return exchanges, xids, nil
}

// firstError returns the first refusal of messages that have been done.
func firstError(exchanges []*exchange) error {
	for _, x := range exchanges {
		select {
		case <-x.done:
			if x.err != nil {
				return x.err
			}
		default:
		}
	}
	return nil
}
