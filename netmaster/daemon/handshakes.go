package daemon

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// A handshake takes a millisecond of CPU before the client is authenticated, more than most requests take. So
// their rate is limited by source address. Further ones wait before any computation, for a second at most,
// since clients wait for two or three. The burst is small, because other handshakes wait while one is computed.
// A /64 of IPv6 has a limit of its own, above that of one address. There is no limit for local connections, nor
// for addresses from which a netmaster has connected, unless it was removed: it forwards requests of many clients.
const (
	handshakeRate       = 30 // per second, of one address
	handshakeBurst      = 20 // at once
	handshakesOfNetwork = 10 // times as many for a /64 of IPv6
)

// handshakes limits TLS handshakes by source address.
type handshakes struct {
	ofMachine, ofNetwork *ratelimit.Limiter
	log                  *logrus.Entry

	removed func(master string) bool // reports whether a netmaster was removed

	mu      sync.Mutex
	masters map[netip.Addr]string // by address: the last netmaster that has connected from it
	shown   map[string]string     // by netmaster: the serial number of its last certificate
}

func newHandshakes(log *logrus.Entry) *handshakes {
	return &handshakes{
		ofMachine: ratelimit.New(ratelimit.Limits{Rate: handshakeRate, Burst: handshakeBurst}),
		ofNetwork: ratelimit.New(ratelimit.Limits{Rate: handshakesOfNetwork * handshakeRate, Burst: handshakesOfNetwork * handshakeBurst}),
		log:       log, removed: func(string) bool { return false }, masters: map[netip.Addr]string{}, shown: map[string]string{},
	}
}

// wait returns when a connection may begin its handshake. It fails at once if that would take too long.
func (h *handshakes) wait(conn net.Conn) error {
	wait, err := h.due(sourceOf(conn), time.Now())
	if err == nil {
		retry.Pause(context.Background(), wait)
	}
	return err
}

// due counts a handshake, and returns how long it has to wait.
func (h *handshakes) due(source netip.Addr, now time.Time) (wait time.Duration, err error) {
	if !source.IsValid() || h.isMaster(source) {
		return 0, nil
	}
	if wait, err = h.turn(h.ofMachine, source.String(), now); err != nil || !source.Is6() {
		return wait, err
	}
	longer, err := h.turn(h.ofNetwork, accounts.Source(source.String()), now)
	return max(wait, longer), err
}

func (h *handshakes) turn(of *ratelimit.Limiter, client string, now time.Time) (wait time.Duration, err error) {
	wait, ok := of.Request(client, now)
	if ok {
		return wait, nil
	}
	err = fault.New(fault.Unavailable, "TLS handshakes of %s: more than it has a second", client)
	if untold, worth := of.Tell(client, ratelimit.Excess, now); worth {
		h.log.WithError(err).WithField("untold", untold).Info("connection refused")
	}
	return 0, err
}

// noteNetmaster records that a netmaster has connected from an address, and logs its certificate if it differs from the one
// before.
func (h *handshakes) noteNetmaster(conn net.Conn, who identity.Identity, shown *x509.Certificate) {
	source, serial := sourceOf(conn), shown.SerialNumber.Text(16)
	h.mu.Lock()
	before, known := h.shown[who.String()]
	h.masters[source], h.shown[who.String()] = who.Name, serial
	h.mu.Unlock()
	if known && serial != before {
		h.log.WithFields(logrus.Fields{"who": who, "from": source, "certificate": serial, "until": shown.NotAfter}).Info("a netmaster comes with another certificate")
	}
}

func (h *handshakes) isMaster(source netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	name, is := h.masters[source]
	return is && !h.removed(name)
}
