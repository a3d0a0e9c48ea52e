package openflow

import (
	"cmp"
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/logging"
	"github.com/contiv/netplugin/utils/retry"
)

// dialTimeout bounds connecting and the handshake.
const dialTimeout = 5 * time.Second

// Client maintains a connection to a switch and reconnects when it is lost.
type Client struct {
	Target  string
	Options Options
	// OnConnect is called for each connection, after its handshake. Its context ends with the connection.
	// If it returns an error the connection is closed, and the client connects again.
	OnConnect func(ctx context.Context, c *Conn) error
	// FirstRedial is the longest wait after a connection for which OnConnect returned nil (100 ms). After
	// every other connection the wait doubles, up to LastRedial (5 s).
	FirstRedial, LastRedial time.Duration
}

// Run connects, and reconnects, until the context ends. It returns the context's error once all
// goroutines of the client have ended.
func (c *Client) Run(ctx context.Context) error {
	options := c.Options.withDefaults()
	log := options.Log.WithField("switch", c.Target)
	pace := retry.NewPacer(cmp.Or(c.FirstRedial, 100*time.Millisecond), cmp.Or(c.LastRedial, 5*time.Second))
	var trouble logging.Trouble // the same error is logged only once in a while, not for each attempt while there is no switch
	for ctx.Err() == nil {
		served, err := c.session(ctx, options, log)
		if ctx.Err() != nil {
			break
		}
		if served {
			pace.Reset()
			trouble.Over()
		}
		wait := pace.Next()
		level := logrus.DebugLevel
		if trouble.IsNews(err, time.Now()) {
			level = logrus.WarnLevel
		}
		log.WithError(err).WithField("retry", wait).Log(level, "switch is not connected")
		retry.Pause(ctx, wait)
	}
	return ctx.Err()
}

// session runs one connection from dialling to its end. It reports whether OnConnect returned nil.
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
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return Dial(ctx, c.Target, options)
}
