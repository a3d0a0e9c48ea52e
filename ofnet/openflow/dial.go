package openflow

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/fault"
)

// Options of a connection. The zero value is usable.
type Options struct {
	// OnEvent receives packet-ins, port status changes and flow removals, in order and one at a time. If
	// nil, the switch is not asked to send any. Events that arrive while 1024 others wait are dropped.
	// Close waits for OnEvent to return.
	OnEvent func(Message)
	// EchoInterval is the time without traffic after which the switch is probed (5 s). EchoTimeout is how
	// long it may take to answer (15 s: it answers nothing while it commits a large bundle). WriteTimeout
	// is how long it may take to read what was sent (10 s). The connection ends when either is exceeded.
	EchoInterval, EchoTimeout, WriteTimeout time.Duration
	// MaxReply limits the total size of a multipart reply, in bytes (256 MiB).
	MaxReply int
	// Log receives errors that cannot be returned to a caller.
	Log *logrus.Entry
}

func (o Options) withDefaults() Options {
	orDefault := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	orDefault(&o.EchoInterval, 5*time.Second)
	orDefault(&o.EchoTimeout, 15*time.Second)
	orDefault(&o.WriteTimeout, 10*time.Second)
	if o.MaxReply <= 0 {
		o.MaxReply = 256 << 20
	}
	if o.Log == nil {
		o.Log = logrus.WithField("component", "openflow")
	}
	return o
}

// Dial connects to a switch: "unix:/run/openvswitch/br0.mgmt" or "tcp:127.0.0.1:6653". It returns
// after the handshake (hello and features). The context bounds only the handshake; the connection
// stays open until Close.
func Dial(ctx context.Context, target string, options Options) (*Conn, error) {
	network, address, ok := strings.Cut(target, ":")
	if !ok || network != "unix" && network != "tcp" || address == "" {
		return nil, fault.New(fault.Invalid, "switch %q: not unix:PATH or tcp:HOST:PORT", target)
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "switch %s: %w", target, err)
	}
	c, err := start(ctx, nc, target, options.withDefaults())
	if err != nil {
		return nil, fault.New(fault.Unavailable, "switch %s: %w", target, err)
	}
	return c, nil
}

// start makes a connection from a stream; on failure it closes the stream.
func start(ctx context.Context, nc net.Conn, target string, options Options) (*Conn, error) {
	if err := greet(ctx, nc); err != nil {
		_ = nc.Close()
		return nil, err
	}
	c := newConn(nc, target, options)
	if err := c.introduce(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// greet exchanges hellos and agrees on the version.
func greet(ctx context.Context, nc net.Conn) error {
	// The end of the context interrupts a blocked read or write.
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	hello, err := Encode(1, Hello{Versions: 1 << Version})
	if err != nil {
		return err
	}
	if _, err := nc.Write(hello); err != nil {
		return greetError(ctx, err)
	}
	frame, err := readFrame(nc)
	if err != nil {
		return greetError(ctx, err)
	}
	if err := agree(frame); err != nil {
		return err
	}
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// greetError returns the error of the context if that has ended, else err.
func greetError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no hello: %w", ctx.Err())
	}
	return fmt.Errorf("no hello: %w", err)
}

// agree checks the switch's hello. The header has the highest version that the switch supports; the
// bitmap, if present, all of them.
func agree(frame []byte) error {
	h, d, err := open(frame)
	if err != nil {
		return err
	}
	m, err := d.body(h)
	if err != nil {
		return err
	}
	hello, ok := m.(Hello)
	if !ok {
		return fmt.Errorf("%s instead of a hello", m)
	}
	if hello.Versions != 0 && hello.Versions&(1<<Version) == 0 || hello.Versions == 0 && h.version < Version {
		return fmt.Errorf("it speaks versions %#x up to %d, but not OpenFlow 1.3 (4)", hello.Versions, h.version)
	}
	return nil
}

// introduce reads the features of the switch, subscribes to events, and sets the treatment of
// fragments.
func (c *Conn) introduce(ctx context.Context) error {
	reply, err := c.call(ctx, FeaturesRequest{})
	if err != nil {
		return err
	}
	features, ok := reply.(Features)
	if !ok {
		return unexpected(reply, FeaturesRequest{})
	}
	c.features = features
	if c.options.OnEvent == nil {
		return nil
	}
	return c.Send(ctx, SetConfig{Flags: FragmentsHavePorts, MissSendLen: NoBuffer}, setPacketInFormat{packetInFormat2})
}
