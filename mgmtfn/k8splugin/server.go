package k8splugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/pending"
	"github.com/contiv/netplugin/utils/keylock"
	"github.com/contiv/netplugin/utils/logging"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/rootsocket"
)

const (
	maxHeader = 16 << 10
	// How long running commands may continue after the context of Run has ended.
	// Those that take longer are cancelled and undone.
	stopGrace = 10 * time.Second
	// Time to write a response, after the command itself.
	answerTime = 10 * time.Second
)

// Server answers CNI commands.
type Server struct {
	Config
	store   *attachment.Store
	boots   *attachment.Boots
	pending pending.Queue
	locks   keylock.Locks[cniwire.Attachment]
	names   keylock.Locks[string]             // by endpoint id: one ADD or deletion at a time
	accepts keylock.Locks[cniwire.Attachment] // deletions that are being accepted from the queue
	adds    slots
	asks    slots
	others  slots
	wake    notify.Signal // set when the worker has an attachment to undo

	unmarked sync.Map // attachments to undo whose checkpoint could not be set to deleting, with the checkpoint's time

	tellsBoot atomic.Bool // the master's last response had the boot id of its endpoint

	beginning sync.Mutex // makes the check of host ports and the first checkpoint one step
}

// New reads the checkpoints of an earlier run and calls Datapath.Hold for the
// attached containers. Unfinished commands are left to Run.
func New(c Config) (*Server, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	store, problems, err := attachment.Open(c.StateDir)
	if err != nil {
		return nil, fmt.Errorf("CNI server: %w", err)
	}
	boots, err := attachment.OpenBoots(c.StateDir, c.Boot)
	if err != nil {
		return nil, fmt.Errorf("CNI server: %w", err)
	}
	if err := boots.Note(); err != nil { // pods are served nevertheless
		c.Log.WithError(err).Error("endpoints of pods that are lost with the power will have to be given back by hand, until it can be written down")
	}
	for _, p := range problems {
		c.Log.WithError(p).Error("checkpoint set aside; its endpoint is deleted some minutes after its container is gone")
	}
	for _, r := range store.Select(isReady) {
		lost, err := c.wasLostByFormer(&r)
		if err != nil {
			return nil, fmt.Errorf("CNI server: container %s: %w", r.Attachment(), err)
		}
		if !lost {
			c.Datapath.Hold(heldBy(&r))
		}
	}
	return &Server{
		Config:  c,
		store:   store,
		boots:   boots,
		pending: pending.Open(c.StateDir),
		adds:    newSlots(addsAtOnce),
		asks:    newSlots(asksAtOnce),
		others:  newSlots(othersAtOnce),
		wake:    notify.New(),
	}, nil
}

// Run serves until ctx ends. It returns after running commands have ended.
// Attached containers keep their interfaces and flows while the server does not
// run.
func (s *Server) Run(ctx context.Context) error {
	listener, err := rootsocket.ListenOnly(s.SocketPath, s.Limits.Connections, s.Log)
	if err != nil {
		return fmt.Errorf("CNI server: %w", err)
	}
	s.resume(ctx)

	// Running commands get the grace period after the end of ctx.
	commands, cancelCommands := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelCommands()
	server := s.httpServer(commands)

	working, stopWork := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.work(working) })
	running.Go(func() { s.reconcile(working) })
	if s.Mode == Kubernetes {
		running.Go(func() { s.beat(working) })
		running.Go(func() { s.sweep(working) })
	}
	stopped := make(chan error, 1)
	running.Go(func() { stopped <- server.Serve(descriptorListener{listener}) })
	s.Log.WithField("socket", s.SocketPath).Info("CNI server is listening")

	select {
	case err = <-stopped:
		err = fmt.Errorf("CNI server: %w", err)
	case <-ctx.Done():
	}
	err = errors.Join(err, shutdown(server, cancelCommands))
	stopWork()
	running.Wait()
	return err
}

func (s *Server) httpServer(commands context.Context) *http.Server {
	return &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: s.Limits.Request,
		ReadTimeout:       s.Limits.Request,
		WriteTimeout:      s.Limits.Request + s.Limits.Add + mostUndos*s.Limits.Undo + answerTime,
		IdleTimeout:       s.Limits.Request,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return commands },
		ConnContext:       withConn,
		ErrorLog:          logging.OfServer(s.Log),
	}
}

// shutdown waits for running commands; after the grace period it cancels them and waits until they are undone.
func shutdown(server *http.Server, cancelCommands func()) error {
	for _, end := range []func(){func() {}, cancelCommands} {
		end()
		grace, cancel := context.WithTimeout(context.Background(), stopGrace)
		err := server.Shutdown(grace)
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("CNI server: stop: %w", server.Close())
}

// routes returns the handlers by path: the present protocol, and that of earlier releases.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+cniwire.PathV2, s.serveV2)
	mux.HandleFunc("POST "+cniwire.PathAddPod, s.serveLegacy(cniwire.Add))
	mux.HandleFunc("POST "+cniwire.PathDelPod, s.serveLegacy(cniwire.Del))
	return mux
}

// slotsOf returns the slots for a command.
func (s *Server) slotsOf(command string) slots {
	switch command {
	case cniwire.Add:
		return s.adds
	case cniwire.Status:
		return s.asks
	}
	return s.others
}

// execute waits for a slot and carries out a command. A DEL that gets no slot is queued.
func (s *Server) execute(ctx context.Context, r cniwire.Request) ([]byte, error) {
	passed := takePassed(ctx)
	defer passed.Close() // nil: returns an error
	c, err := newCall(r)
	if err != nil {
		return nil, err
	}
	c.passed = passed
	leave, err := s.slotsOf(r.Command).enter(ctx)
	if err != nil && r.Command == cniwire.Del {
		return nil, s.postpone(ctx, r, err)
	}
	if err != nil {
		return nil, failed(stepRequest, fmt.Errorf("%s of %s: %w", r.Command, c.id, err))
	}
	defer leave()
	switch r.Command {
	case cniwire.Add:
		return s.add(ctx, c)
	case cniwire.Del:
		return nil, s.del(ctx, c.id)
	case cniwire.Check:
		return nil, s.check(ctx, c)
	case cniwire.GC:
		return nil, s.gc(ctx, c.conf)
	default: // STATUS: newCall refuses all others
		return nil, s.status(ctx)
	}
}
