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

// Place is where a server listens, and by whose addresses it knows who asks.
type Place interface {
	// AwaitNames waits until the place is there. Sockets that work opens belong to
	// it until gone is closed.
	AwaitNames(ctx context.Context) (enter func(work func() error) error, gone <-chan struct{}, err error)
	// AskerAt is the endpoint that asks from an address.
	AskerAt(a netip.Addr) (endpointID string, known bool)
}

// address is where a server listens: whatever address the place has.
const address = ":53"

// Questions that wait for the server, in bytes. The kernel gives less if it was
// told to.
const receiveBuffer = 4 << 20

// Pauses between attempts to listen.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// NewServer makes a server of the names of whoever asks from a place. It answers
// once ready returns; what is asked before waits for it.
func NewServer(zones *Zones, forwarder *Forwarder, place Place, ready func(context.Context) error) *Server {
	return &Server{Zones: zones, Forwarder: forwarder, place: place, ready: ready,
		Tenant: func(asker netip.Addr) (string, bool) {
			id, known := place.AskerAt(asker)
			if !known {
				return "", false
			}
			return zones.TenantOf(id)
		}}
}

// Keep listens at the place, wherever that is, until ctx is done. What fails is
// tried again: nothing else of a node depends on it.
func (s *Server) Keep(ctx context.Context) error {
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

// listen answers at the place until that is another one, or ctx is done.
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
			_ = packets.Close() // nothing has come in
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
