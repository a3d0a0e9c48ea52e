package daemon

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/utils/retry"
)

// handshakes limits TLS handshakes by source address. There is no limit for local connections, nor for addresses from
// which a netmaster has connected, unless it was removed: it forwards requests of many clients.
type handshakes struct {
	limits *ratelimit.Handshakes
	log    *logrus.Entry

	removed func(master string) bool // reports whether a netmaster was removed

	mu      sync.Mutex
	masters map[netip.Addr]string // by address: the last netmaster that has connected from it
	shown   map[string]string     // by netmaster: the serial number of its last certificate
}

func newHandshakes(log *logrus.Entry) *handshakes {
	return &handshakes{
		limits: ratelimit.NewHandshakes(log), log: log,
		removed: func(string) bool { return false }, masters: map[netip.Addr]string{}, shown: map[string]string{},
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
	return h.limits.Due(source, now)
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
