package membership

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Vouch tells which node or netmaster a token of somebody else stands for. It is fault.Denied
// for one that stands for none.
type Vouch func(ctx context.Context, token string) (identity.Identity, error)

// How many tokens others are asked about at a time, for how many that is waited for or done, and for how long: whoever
// shows any text has us ask, and may have no more of our connections and of their time than that.
const (
	vouchesAtOnce = 16
	vouchesTaken  = 64
	vouchTime     = 5 * time.Second
)

// vouches are the tokens that others are asked about.
type vouches struct{ taken, asked ratelimit.Semaphore }

func newVouches() vouches {
	return vouches{make(ratelimit.Semaphore, vouchesTaken), make(ratelimit.Semaphore, vouchesAtOnce)}
}

// ask finds out to whom a token belongs. It fails with fault.Unavailable if too many are being checked, or when its time is over.
func (v vouches) ask(ctx context.Context, vouch Vouch, token string) (identity.Identity, error) {
	leave, err := v.taken.TryAcquire("nodes and netmasters that join")
	if err != nil {
		return identity.Identity{}, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, vouchTime)
	defer cancel()
	done, err := v.asked.Acquire(ctx)
	if err != nil {
		return identity.Identity{}, fault.New(fault.Unavailable, "join token: too many are asked about: %w", err)
	}
	defer done()
	return vouch(ctx, token)
}

// joinVouched takes in a node or a netmaster with a token that somebody else vouches for. Such a token stands for one name, so that
// name may get another key as well: a machine that was set up anew comes back by itself. Nothing is lost by that, as only root of a machine
// has its token, and root has its key, too. A node that was limited to some tenants stays limited to them.
func (m *Members) joinVouched(r *http.Request, request *mastercfg.JoinRequest) (rest.Reply, error) {
	wanted, err := m.asked(request.CSR)
	if err != nil {
		return rest.Reply{}, err
	}
	who, err := m.vouches.ask(r.Context(), m.config.Vouch, request.Token)
	if err != nil {
		return rest.Reply{}, err
	}
	auth.CallerFrom(r.Context()).SetProvenSubject(fmt.Sprintf("%s with key %s, vouched for", who, wanted.hash))
	if who.Kind == identity.Node && who.Name != request.Host {
		return rest.Reply{}, fault.New(fault.Denied, "join token: it is that of node %s, and node %s shows it", who.Name, request.Host).WithField("host")
	}
	rev, err := m.term.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		if err := checkNotRevoked(tx, who.Kind, wanted.hash); err != nil {
			return err
		}
		at := recordKey(string(who.Kind), who.Name)
		before, err := ledger.Read[mastercfg.Joined](tx, at)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		joined := mastercfg.Joined{Host: who.Name, Key: wanted.hash, Addresses: request.Addresses, VTEPs: request.VTEPs,
			Tenants: before.Tenants, Token: mastercfg.VouchedToken, Joined: wanted.now}
		if before.Key == wanted.hash && joined.IsAt(before) {
			joined.Joined = before.Joined
		}
		return wanted.admit(tx, at, who.Kind, joined, request.Established)
	})
	return rest.Reply{Body: wanted.answer, Revision: rev}, err
}
