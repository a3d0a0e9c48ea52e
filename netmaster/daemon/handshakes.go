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

// A handshake takes a millisecond of a processor before it is known who wants it, which is
// more than most requests take. So each machine has so many a second, and who wants more of
// them waits before anything is computed, for a second at most: clients wait for two or three.
// Few come at once: while they are computed, others wait. A network of IPv6 has more than one
// machine of it, but not as many as it has addresses. The machine itself, as its users at
// loopback, has no such limit, and neither has one from which a netmaster has come: that
// comes for all that have asked it.
const (
	handshakeRate       = 30 // a second, of one address
	handshakeBurst      = 20 // and at once
	handshakesOfNetwork = 10 // times as many are those of a /64 of IPv6
)

// handshakes divides handshakes among the machines that ask for them.
type handshakes struct {
	ofMachine, ofNetwork *ratelimit.Limiter
	log                  *logrus.Entry

	mu      sync.Mutex
	masters map[netip.Addr]struct{} // one has come from there
	shown   map[string]string       // by which of them: the serial number of the certificate that it has shown last
}

func newHandshakes(log *logrus.Entry) *handshakes {
	return &handshakes{
		ofMachine: ratelimit.New(ratelimit.Limits{Rate: handshakeRate, Burst: handshakeBurst}),
		ofNetwork: ratelimit.New(ratelimit.Limits{Rate: handshakesOfNetwork * handshakeRate, Burst: handshakesOfNetwork * handshakeBurst}),
		log:       log, masters: map[netip.Addr]struct{}{}, shown: map[string]string{},
	}
}

// wait returns when a connection may have its handshake. It fails at once if those of its
// machine that wait already take too long.
func (h *handshakes) wait(conn net.Conn) error {
	wait, err := h.due(sourceOf(conn), time.Now())
	if err == nil {
		retry.Pause(context.Background(), wait)
	}
	return err
}

// due counts a handshake, and tells how long it has to wait.
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

// know notes that a netmaster has come by a connection, and logs which certificate it has shown, if that is another one than it
// has shown before.
func (h *handshakes) know(conn net.Conn, who identity.Identity, shown *x509.Certificate) {
	source, serial := sourceOf(conn), shown.SerialNumber.Text(16)
	h.mu.Lock()
	before, known := h.shown[who.String()]
	h.masters[source], h.shown[who.String()] = struct{}{}, serial
	h.mu.Unlock()
	if known && serial != before {
		h.log.WithFields(logrus.Fields{"who": who, "from": source, "certificate": serial, "until": shown.NotAfter}).Info("a netmaster comes with another certificate")
	}
}

func (h *handshakes) isMaster(source netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, is := h.masters[source]
	return is
}
