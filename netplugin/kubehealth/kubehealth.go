// Package kubehealth reports how a node serves services of Kubernetes, at the ports at which clients expect
// Kubernetes' own proxy:
//
//	port of a service       load balancers: has the node a backend of it?
//	:10256 /healthz         load balancers: does the node serve services, and is it going to stay?
//	:10256 /livez           the first half of that
//	127.0.0.1:10249         which proxy is it? /proxyMode
//
// The health port of a service is open exactly while the service has it.
package kubehealth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/utils/fairlisten"
)

// Node is the source of the answers.
type Node interface {
	KubeHealth() agent.KubeHealth
	Ready() error                     // why the node does not serve as it should; nil: it does
	TellClosed(why map[uint16]string) // why the health ports of some services are not open; those of others are
}

// Server serves the health ports.
type Server struct {
	node     Node
	asBefore func(notReady error) bool
	log      *logrus.Entry
	fixed    map[string]http.Handler // by address: independent of services

	open   map[string]*http.Server
	failed map[string]failure // by address
}

// failure is the reason, as logged, why an address is not served.
type failure struct {
	why   string
	since time.Time
}

// The addresses of Kubernetes' own proxy for queries about itself.
const (
	healthAddress = ":10256"
	modeAddress   = "127.0.0.1:10249"
)

// Times of the server.
const (
	retryEvery  = 5 * time.Second // for an address that was in use
	readTimeout = 10 * time.Second
	lastAnswers = time.Second // for pending requests at the end
)

// Limits of each port, which any client can reach, endpoints too.
const (
	headerTime = 5 * time.Second
	maxHeader  = 4 << 10
	maxConns   = 256 // and as many from the machine itself
	ofOne      = 16  // from one address
)

// New returns a server, which does nothing before Run. A node that is not ready counts as good if asBefore reports
// that it serves what it served before.
func New(node Node, asBefore func(notReady error) bool, log *logrus.Entry) *Server {
	s := &Server{node: node, asBefore: asBefore, log: log, open: map[string]*http.Server{}, failed: map[string]failure{}}
	s.fixed = map[string]http.Handler{healthAddress: s.proxy(), modeAddress: mode()}
	return s
}

// Run serves the wanted addresses until ctx is done.
func (s *Server) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	defer s.listen(context.WithoutCancel(ctx), nil, &serving)
	for ctx.Err() == nil {
		health := s.node.KubeHealth()
		wanted := map[string]http.Handler{}
		for address, handler := range s.fixed {
			wanted[address] = handler
		}
		for port := range health.Ports {
			wanted[addressOf(port)] = s.service(port)
		}
		s.listen(ctx, wanted, &serving)
		s.logFailedListeners(health.Ports)
		var again <-chan time.Time
		if len(s.open) < len(wanted) {
			again = time.After(retryEvery)
		}
		select {
		case <-health.Changed:
		case <-again:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// addressOf returns the address of a service's health port.
func addressOf(port uint16) string { return fmt.Sprintf(":%d", port) }

// logFailedListeners logs the service ports on which the server cannot listen, after a second try: a netplugin
// that ends may have them for a moment.
func (s *Server) logFailedListeners(ports map[uint16]agent.HealthPort) {
	why := map[uint16]string{}
	for port := range ports {
		if failed, is := s.failed[addressOf(port)]; is && time.Since(failed.since) >= retryEvery {
			why[port] = failed.why
		}
	}
	s.node.TellClosed(why)
}

// listen opens the wanted addresses and closes all others.
func (s *Server) listen(ctx context.Context, wanted map[string]http.Handler, serving *sync.WaitGroup) {
	for address, server := range s.open {
		if wanted[address] != nil {
			continue
		}
		delete(s.open, address)
		ending, cancel := context.WithTimeout(ctx, lastAnswers)
		if server.Shutdown(ending) != nil {
			server.Close()
		}
		cancel()
	}
	for address := range s.failed {
		if wanted[address] == nil {
			delete(s.failed, address)
		}
	}
	for address, handler := range wanted {
		if s.open[address] != nil {
			continue
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			why := fmt.Sprintf("nobody is told at %s how this node serves services: %v; tried again every %s", address, err, retryEvery)
			if s.failed[address].why != why && ctx.Err() == nil {
				s.failed[address] = failure{why, time.Now()}
				s.log.Warn(why)
			}
			continue
		}
		delete(s.failed, address)
		server := &http.Server{
			Handler: handler, ReadHeaderTimeout: headerTime, ReadTimeout: readTimeout, WriteTimeout: readTimeout, MaxHeaderBytes: maxHeader,
		}
		s.open[address] = server
		serving.Go(func() {
			if err := server.Serve(fairlisten.New(listener, fairlisten.Limits{Each: ofOne, All: maxConns, Own: maxConns})); !errors.Is(err, http.ErrServerClosed) {
				s.log.WithError(err).WithField("address", address).Warn("health of services")
			}
		})
	}
}
