package openflow

import (
	"context"
	"fmt"
)

// list asks for a list of things and reads the answer.
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

// streamed is how many parts of an answer, of 64 KiB at most, wait for their
// reader. When there are more, the switch waits.
const streamed = 16

// stream takes the parts of an answer to the one who asked, as they come in:
// an answer of any length occupies the memory of a few parts.
type stream struct {
	parts chan []byte
	left  chan struct{} // closed when nobody reads any more
}

// pass hands a part to the stream of its request, if it has one.
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

// EachFlow calls a function for each flow in the switch that passes the filter,
// in the switch's order. The switch goes on while we read: a flow that is
// changed meanwhile may be seen before or after. An error of the function ends
// the reading and is returned.
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

// lastParts reads what came in before the answer was complete.
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

// eachEntry reads the flows of one part; an entry never spans two.
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
