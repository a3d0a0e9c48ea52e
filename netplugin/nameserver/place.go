package nameserver

import (
	"context"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// Place is a network namespace in which a server listens, with the endpoints that can reach it.
type Place interface {
	// AwaitNames waits until the place exists. Sockets that work opens, called by enter, belong to the place until
	// gone is closed.
	AwaitNames(ctx context.Context) (enter func(work func() error) error, gone <-chan struct{}, err error)
	// AskerAt returns the endpoint with a source address at the place.
	AskerAt(a netip.Addr) (endpointID string, known bool)
}

// address is where a server listens: all addresses of the place.
const address = ":53"

// receiveBuffer is the socket's buffer for waiting queries, in bytes. The kernel may be configured to allow less.
const receiveBuffer = 4 << 20

// Pauses between attempts to listen.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// newServer returns a server at a place, which answers each client from the names of its tenant. It answers once
// ready returns; earlier queries wait in the socket.
func newServer(zones *Zones, forwarder *Forwarder, place Place, ready func(context.Context) error) *Server {
	return &Server{Zones: zones, Forwarder: forwarder, place: place, ready: ready,
		Tenant: func(asker netip.Addr) (string, bool) {
			id, known := place.AskerAt(asker)
			if !known {
				return "", false
			}
			return zones.TenantOf(id)
		}}
}

// keep serves at the place until ctx ends, again whenever the place is replaced. After an error it retries: no
// other part of the node depends on it.
func (s *Server) keep(ctx context.Context) error {
	pause := retry.NewPacer(firstRetry, lastRetry)
	for ctx.Err() == nil {
		began := time.Now()
		err := s.listen(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > lastRetry {
			pause.Reset()
		}
		s.Log.WithError(err).Info("listening anew")
		pause.Sleep(ctx)
	}
	return ctx.Err()
}

// listen serves at the place until the place is gone, or ctx ends.
func (s *Server) listen(ctx context.Context) error {
	enter, gone, err := s.place.AwaitNames(ctx)
	if err != nil {
		return err
	}
	var packets *net.UDPConn
	var streams net.Listener
	err = enter(func() (err error) {
		if packets, err = net.ListenUDP("udp", &net.UDPAddr{Port: dnsPort}); err != nil {
			return err
		}
		if streams, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err != nil {
			_ = packets.Close() // no query was received
		}
		return err
	})
	if err != nil {
		return fault.New(fault.Unavailable, "name server: %w", err)
	}
	if err := packets.SetReadBuffer(receiveBuffer); err != nil {
		s.Log.WithError(err).Debug("receive buffer")
	}
	s.listening.Store(true)
	defer s.listening.Store(false)
	group, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	group.Go(func() error {
		defer stop()
		select {
		case <-gone:
		case <-ctx.Done():
		}
		return nil
	})
	group.Go(func() error {
		defer stop()
		if err := s.ready(ctx); err != nil {
			_, _ = packets.Close(), streams.Close()
			return err
		}
		return s.Run(ctx, packets, streams)
	})
	return group.Wait()
}
