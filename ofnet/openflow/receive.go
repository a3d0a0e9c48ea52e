package openflow

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sirupsen/logrus"
)

// read receives messages until the stream ends or a frame is malformed; no later frame can be found
// after that.
func (c *Conn) read() error {
	stream := bufio.NewReaderSize(c.nc, 1<<16)
	for {
		frame, err := readFrame(stream)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the switch hung up: %w", err)
		}
		if err != nil {
			return err
		}
		c.lastRead.Store(int64(time.Since(c.started)))
		if err := c.receive(frame); err != nil {
			return err
		}
	}
}

// receive handles one message. A body that cannot be decoded is the error of the request it answers;
// if it answers none it is logged and ignored. Only a malformed header is returned as an error.
func (c *Conn) receive(frame []byte) error {
	h, d, err := open(frame)
	if err != nil {
		return err
	}
	m, err := d.body(h)
	if err != nil {
		if !c.settle(h.xid, nil, err) {
			c.complain(err)
		}
		return nil
	}
	switch m := m.(type) {
	case EchoRequest:
		return c.answerEcho(h.xid, m)
	case PacketIn, PortStatus, FlowRemoved:
		c.event(m)
	case *Error:
		if !c.settle(h.xid, nil, m) {
			c.options.Log.WithError(m).Warnf("switch %s: error that answers nothing", c.target)
		}
	default:
		if !c.settle(h.xid, m, nil) {
			c.options.Log.Debugf("switch %s: %s answers nothing", c.target, m)
		}
	}
	return nil
}

// complain logs a message that is ignored. A switch that sends malformed messages sends many: only the
// first is logged.
func (c *Conn) complain(err error) {
	level := logrus.WarnLevel
	if c.garbled++; c.garbled > 1 {
		level = logrus.DebugLevel
	}
	c.options.Log.WithError(err).Logf(level, "switch %s: message %d that is ignored", c.target, c.garbled)
}

// settle passes a reply to the request with that id, and reports whether there is one.
func (c *Conn) settle(xid uint32, reply Message, err error) bool {
	if part, ok := reply.(multipartReply); ok && err == nil {
		c.pass(xid, part)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x, ok := c.waiting[xid]
	if !ok {
		return false
	}
	if part, isPart := reply.(multipartReply); isPart && err == nil {
		var complete bool
		if complete, err = x.part(part); !complete {
			return true
		}
	}
	var refusal *Error
	if errors.As(err, &refusal) {
		refusal.Request = x.request.String()
	} else if err != nil {
		err = fmt.Errorf("switch %s: %s: %w", c.target, x.request, err)
	}
	delete(c.waiting, xid)
	x.finish(reply, err)
	return true
}

func (c *Conn) answerEcho(xid uint32, request EchoRequest) error {
	reply, err := Encode(xid, EchoReply(request))
	if err != nil {
		return err
	}
	select {
	case c.echoes <- reply:
		return nil
	default:
		return fmt.Errorf("more than %d echo requests whose replies it does not take", sendQueue)
	}
}

// event queues an event for OnEvent. If the queue is full the event is dropped: reading must never
// block on OnEvent.
func (c *Conn) event(m Message) {
	if c.options.OnEvent == nil {
		return
	}
	select {
	case c.events <- m:
	default:
		c.dropped.Add(1)
	}
}
