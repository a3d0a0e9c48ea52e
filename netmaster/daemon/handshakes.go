package daemon

import (
	"context"
	"net"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/shares"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// A handshake takes a millisecond of a processor before it is known who wants it, which is
// more than most requests take. So each machine has so many a second, and who wants more of
// them waits before anything is computed. Few come at once: while they are computed, others
// wait. The machine itself, as its users at loopback, has no such limit, and what turns out
// to be a netmaster is not counted: it comes for all that have asked it.
const (
	handshakeRate  = 30              // a second, of one address of IPv4, or one /64 of IPv6
	handshakeBurst = 20              // and at once
	handshakeWait  = 3 * time.Second // for its turn; headerTime goes on meanwhile
)

// handshakes divides handshakes among the machines that ask for them.
type handshakes struct {
	of  *shares.Shares // by accounts.Source
	log *logrus.Entry
}

func newHandshakes(log *logrus.Entry) *handshakes {
	return &handshakes{shares.New(shares.Limits{Rate: handshakeRate, Burst: handshakeBurst, Patience: handshakeWait}), log}
}

// wait returns when a connection may have its handshake. It fails at once if those of its
// machine that wait already take too long.
func (h *handshakes) wait(conn net.Conn) error {
	machine, limited := machineOf(conn)
	if !limited {
		return nil
	}
	now := time.Now()
	wait, ok := h.of.Request(machine, now)
	if !ok {
		err := fault.New(fault.Unavailable, "TLS handshakes of %s: more than %d a second", machine, handshakeRate)
		if untold, worth := h.of.Tell(machine, shares.Excess, now); worth {
			h.log.WithError(err).WithField("untold", untold).Info("connection refused")
		}
		return err
	}
	retry.Pause(context.Background(), wait)
	return nil
}

// forget takes back that a connection was counted.
func (h *handshakes) forget(conn net.Conn) {
	if machine, limited := machineOf(conn); limited {
		h.of.Return(machine, time.Now())
	}
}

// machineOf is whose handshakes those of a connection are.
func machineOf(conn net.Conn) (machine string, limited bool) {
	source := sourceOf(conn)
	return accounts.Source(source.String()), source.IsValid()
}
