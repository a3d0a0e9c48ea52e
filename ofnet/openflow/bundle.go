package openflow

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// discardTimeout bounds the wait for a bundle to be thrown away, when the
// caller's own patience may be over.
const discardTimeout = 5 * time.Second

// Bundle sends messages that take effect together, in their order, or not at
// all. Packets see the switch either before all of them or after.
//
// The switch checks some things when a message is added to the bundle, others
// when the bundle is committed. A refusal while adding leaves a bundle that
// could still be committed without the refused message, so it is discarded
// here. Either way the error is an *Error that names the message.
//
// Meters are refused in bundles by Open vSwitch: Send them.
//
// If the context or the connection ends during the commit it is not known
// whether it took place; the error then is not an *Error.
func (c *Conn) Bundle(ctx context.Context, messages ...Message) error {
	if len(messages) == 0 {
		return nil
	}
	id := c.bundles.Add(1)
	sequence := make([]Message, 0, len(messages)+1)
	sequence = append(sequence, bundleControl{id, bundleOpen})
	for _, m := range messages {
		sequence = append(sequence, bundleAdd{id: id, inner: m})
	}
	sent, err := c.post(ctx, sequence...)
	defer c.forget(sent...)
	if len(sent) == 0 {
		return err
	}
	if err == nil {
		err = c.Barrier(ctx)
	}
	if err == nil {
		err = c.refusal(sent)
	}
	if err != nil {
		return errors.Join(err, c.discard(id))
	}
	return c.commit(ctx, id, sent)
}

// commit makes the bundle take effect. The switch reports what it can't do
// under the message's own id, before it reports that the commit failed.
func (c *Conn) commit(ctx context.Context, id uint32, sent []*exchange) error {
	request := bundleControl{id, bundleCommit}
	reply, err := c.call(ctx, request)
	if refused := c.refusal(sent); refused != nil {
		return refused
	}
	if err != nil {
		return err
	}
	return request.answered(reply)
}

// discard throws the bundle away.
func (c *Conn) discard(id uint32) error {
	if c.Err() != nil {
		return nil // with the connection, the bundle is gone
	}
	ctx, cancel := context.WithTimeout(context.Background(), discardTimeout)
	defer cancel()
	request := bundleControl{id, bundleDiscard}
	reply, err := c.call(ctx, request)
	if err != nil {
		return fmt.Errorf("discard: %w", err)
	}
	return request.answered(reply)
}

// answered checks that a reply is the one to this request.
func (c bundleControl) answered(reply Message) error {
	if got, ok := reply.(bundleControl); !ok || got.id != c.id || got.op != c.op+1 {
		return unexpected(reply, c)
	}
	return nil
}
