package openflow

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// discardTimeout bounds the wait for the discarding of a bundle, since the caller's context may have
// ended.
const discardTimeout = 5 * time.Second

// Bundle sends messages that take effect together, in their order, or not at all. Each packet sees the
// switch either before all of them or after.
//
// The switch validates part of a message when it is added to the bundle, the rest when the bundle is
// committed. After a refused addition the bundle could still be committed without that message, so it
// is discarded here. In both cases the error is an *Error that names the message.
//
// Open vSwitch does not accept meters in bundles: use Send for them.
//
// If the context or the connection ends during the commit, it is unknown whether the bundle took
// effect; the error then is not an *Error.
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

// commit commits the bundle. The switch reports a message that it cannot apply under the id of that
// message, before it reports that the commit failed.
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

// discard discards the bundle.
func (c *Conn) discard(id uint32) error {
	if c.Err() != nil {
		return nil // the switch drops the bundles of a connection that has ended
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

// answered reports whether reply answers this request.
func (c bundleControl) answered(reply Message) error {
	if got, ok := reply.(bundleControl); !ok || got.id != c.id || got.op != c.op+1 {
		return unexpected(reply, c)
	}
	return nil
}
