package openflow

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// peer is a switch whose behaviour a test scripts, message by message.
type peer struct {
	t    *testing.T
	conn net.Conn
}

// scripted listens where a switch would. Each connection is handed to the
// script; it is closed when the script returns.
func scripted(t *testing.T, script func(p *peer)) (target string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "of")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			script(&peer{t, conn})
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
		_ = os.RemoveAll(dir)
	})
	return "unix:" + path
}

// next reads a message of ours; nil when we have hung up.
func (p *peer) next() (uint32, Message) {
	frame, err := readFrame(p.conn)
	if err != nil {
		return 0, nil
	}
	xid, m, err := Decode(frame)
	if err != nil {
		p.t.Errorf("we sent something that is not OpenFlow: %v", err)
	}
	return xid, m
}

func (p *peer) send(xid uint32, m Message) {
	b, err := Encode(xid, m)
	if err != nil {
		p.t.Errorf("script: %v", err)
	}
	p.raw(b)
}

// raw sends bytes; that we may have hung up is a part of some scripts.
func (p *peer) raw(b []byte) { _, _ = p.conn.Write(b) }

// greet does what a switch does at first.
func (p *peer) greet() {
	p.send(1, Hello{Versions: 1 << Version})
	p.next()
	xid, _ := p.next()
	p.send(xid, Features{DatapathID: 7})
}

// obey answers what needs an answer until we hang up. The answer of each kind
// of request can be replaced.
func (p *peer) obey(special func(xid uint32, m Message) (handled bool)) {
	for {
		xid, m := p.next()
		if m == nil {
			return
		}
		if special != nil && special(xid, m) {
			continue
		}
		switch m := m.(type) {
		case BarrierRequest:
			p.send(xid, BarrierReply{})
		case EchoRequest:
			p.send(xid, EchoReply(m))
		case bundleControl:
			p.send(xid, bundleControl{m.id, m.op + 1})
		}
	}
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// patience is how long anything may take that should happen at once.
const patience = 10 * time.Second

func dialPeer(t *testing.T, target string, options Options) *Conn {
	t.Helper()
	c, err := Dial(deadline(t, patience), target, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// mustEnd waits for the end of a connection and returns its reason.
func mustEnd(t *testing.T, c *Conn) error {
	t.Helper()
	select {
	case <-c.Done():
		return c.Err()
	case <-time.After(patience):
		t.Fatal("the connection goes on")
		return nil
	}
}

// mustWork checks that a connection is of use.
func mustWork(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.Barrier(deadline(t, patience)); err != nil {
		t.Fatalf("the connection is of no use any more: %v", err)
	}
}

func isRefusal(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal)
}
