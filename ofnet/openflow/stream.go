package openflow

import (
	"context"
	"fmt"
)

// list requests a list and returns the items of the reply.
func list[T any](ctx context.Context, c *Conn, request multipartRequest, read func(d *decoder) []T) ([]T, error) {
	x, err := c.ask(ctx, request, nil)
	if err != nil {
		return nil, err
	}
	defer c.forget(x)
	reply, err := c.await(ctx, x)
	if err != nil {
		return nil, err
	}
	if _, ok := reply.(multipartReply); !ok {
		return nil, unexpected(reply, request)
	}
	d := &decoder{b: x.parts}
	things := read(d)
	if d.err != nil {
		return nil, fmt.Errorf("switch %s: answer to %s: %w", c.target, request, d.err)
	}
	return things, nil
}

// streamed is how many parts of a reply, of up to 64 KiB each, wait for their reader. Then the switch
// has to wait.
const streamed = 16

// stream passes the parts of a reply to the requester as they arrive: a reply of any length occupies
// the memory of a few parts.
type stream struct {
	parts chan []byte
	left  chan struct{} // closed when the requester has stopped reading
}

// pass passes a part to the stream of its request, if it has one.
func (c *Conn) pass(xid uint32, part multipartReply) {
	c.mu.Lock()
	x, ok := c.waiting[xid]
	c.mu.Unlock()
	if !ok || x.stream == nil || part.kind != partFlow {
		return
	}
	select {
	case x.stream.parts <- part.body:
	case <-x.stream.left:
	case <-c.life.Done():
	}
}

// EachFlow calls a function for each flow in the switch that passes the filter, in the switch's order.
// This is not a snapshot: a flow that is changed meanwhile may be seen before or after its change. If
// the function returns an error, EachFlow stops and returns it.
func (c *Conn) EachFlow(ctx context.Context, filter FlowFilter, do func(FlowEntry) error) error {
	request := multipartRequest{partFlow, filter.encode}
	s := &stream{parts: make(chan []byte, streamed), left: make(chan struct{})}
	defer close(s.left)
	x, err := c.ask(ctx, request, s)
	if err != nil {
		return err
	}
	defer c.forget(x)
	for {
		select {
		case part := <-s.parts:
			if err := c.eachEntry(part, do); err != nil {
				return err
			}
		case <-ctx.Done():
			return c.lateFor(ctx, request)
		case <-x.done:
			return c.lastParts(x, s, do)
		}
	}
}

// lastParts processes the parts that arrived before the reply was complete.
func (c *Conn) lastParts(x *exchange, s *stream, do func(FlowEntry) error) error {
	for x.err == nil {
		select {
		case part := <-s.parts:
			if err := c.eachEntry(part, do); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return x.err
}

// eachEntry processes the flows of one part; no entry spans two parts.
func (c *Conn) eachEntry(part []byte, do func(FlowEntry) error) error {
	d := &decoder{b: part}
	for d.more() {
		entry := d.element(lengthFirst)
		f := entry.flowEntry()
		if d.join(entry, "flow entry"); d.err != nil {
			break
		}
		if err := do(f); err != nil {
			return err
		}
	}
	if d.err != nil {
		return fmt.Errorf("switch %s: answer to flow request: %w", c.target, d.err)
	}
	return nil
}
