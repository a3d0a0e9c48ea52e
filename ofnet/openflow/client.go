package openflow

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
)

// Client keeps a connection to a switch that may come and go.
type Client struct {
	Target  string
	Options Options
	// OnConnect is called for each connection, after its handshake. Its
	// context ends with the connection. An error ends the connection; there
	// will be another.
	OnConnect func(ctx context.Context, c *Conn) error
	// DialTimeout bounds connecting and the handshake (5 s).
	DialTimeout time.Duration
	// Backoff says how long to wait before the next attempt, given the number
	// of failures in a row, from 1. By default 100 ms, doubling up to 5 s.
	Backoff func(failures int) time.Duration
}

// Run connects, and connects again, until the context is done. It returns the
// context's error when nothing of the client runs any more.
func (c *Client) Run(ctx context.Context) error {
	options := c.Options.withDefaults()
	log := options.Log.WithField("switch", c.Target)
	for failures := 0; ctx.Err() == nil; {
		served, err := c.session(ctx, options, log)
		if ctx.Err() != nil {
			break
		}
		if served {
			failures = 0
		}
		failures++
		wait := c.backoff(failures)
		log.WithError(err).WithField("retry", wait).Warn("switch is not connected")
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return ctx.Err()
}

// session is one connection, from beginning to end. It tells whether OnConnect
// was content with it.
func (c *Client) session(ctx context.Context, options Options, log *logrus.Entry) (served bool, err error) {
	conn, err := c.dial(ctx, options)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	log.Infof("switch is connected: %s", conn.Features())

	live, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(conn.life, cancel)
	defer stop()
	if c.OnConnect != nil {
		if err := c.OnConnect(live, conn); err != nil {
			return false, err
		}
	}
	select {
	case <-conn.Done():
		return true, conn.Err()
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

func (c *Client) dial(ctx context.Context, options Options) (*Conn, error) {
	timeout := c.DialTimeout
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return Dial(ctx, c.Target, options)
}

func (c *Client) backoff(failures int) time.Duration {
	if c.Backoff != nil {
		return c.Backoff(failures)
	}
	const first, last = 100 * time.Millisecond, 5 * time.Second
	return min(first<<min(failures-1, 10), last)
}
