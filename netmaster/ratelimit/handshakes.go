package ratelimit

import (
	"net/netip"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/fault"
)

// A handshake takes a millisecond of CPU before the client is authenticated, more than most requests take. So
// their rate is limited by source address. Further ones wait before any computation, for a second at most,
// since clients wait for two or three. The burst is small, because other handshakes wait while one is computed.
// A /64 of IPv6 has a limit of its own, above that of one address.
const (
	HandshakeRate       = 30 // per second, of one address
	HandshakeBurst      = 20 // at once
	HandshakesOfNetwork = 10 // times as many for a /64 of IPv6
)

// Handshakes limits TLS handshakes by source address.
type Handshakes struct {
	ofMachine, ofNetwork *Limiter
	log                  *logrus.Entry
}

// NewHandshakes returns the limits of a server, which logs refused connections.
func NewHandshakes(log *logrus.Entry) *Handshakes {
	return &Handshakes{
		ofMachine: New(Limits{Rate: HandshakeRate, Burst: HandshakeBurst}),
		ofNetwork: New(Limits{Rate: HandshakesOfNetwork * HandshakeRate, Burst: HandshakesOfNetwork * HandshakeBurst}),
		log:       log,
	}
}

// Due counts a handshake, and returns how long it has to wait. It fails if that would be too long.
func (h *Handshakes) Due(source netip.Addr, now time.Time) (wait time.Duration, err error) {
	if wait, err = h.turn(h.ofMachine, source.String(), now); err != nil || !source.Is6() {
		return wait, err
	}
	longer, err := h.turn(h.ofNetwork, netip.PrefixFrom(source.WithZone(""), 64).Masked().String(), now)
	return max(wait, longer), err
}

func (h *Handshakes) turn(of *Limiter, client string, now time.Time) (wait time.Duration, err error) {
	wait, ok := of.Request(client, now)
	if ok {
		return wait, nil
	}
	err = fault.New(fault.Unavailable, "TLS handshakes of %s: more than it has a second", client)
	if untold, worth := of.Tell(client, Excess, now); worth {
		h.log.WithError(err).WithField("untold", untold).Info("connection refused")
	}
	return 0, err
}
