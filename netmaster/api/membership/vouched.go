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

// Vouch returns the node or netmaster that a token of another
// issuer identifies. It returns fault.Denied for an invalid token.
type Vouch func(ctx context.Context, token string) (identity.Identity, error)

// Limits of token checks at the issuer: how many run at a time, how many run or wait, and how long each may
// take. Any client can cause a check with any text, and must not occupy more connections and time.
const (
	vouchesAtOnce = 16
	vouchesTaken  = 64
	vouchTime     = 5 * time.Second
)

// vouches limits the token checks.
type vouches struct{ taken, asked ratelimit.Semaphore }

func newVouches() vouches {
	return vouches{make(ratelimit.Semaphore, vouchesTaken), make(ratelimit.Semaphore, vouchesAtOnce)}
}

// ask returns the identity that a token belongs to. It fails with fault.Unavailable if too many are being
// checked, or when its time is over.
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

// joinVouched admits a node or a netmaster with a token of another issuer. Such a token identifies one name, so
// that name may get another key: a machine that was set up again returns by itself. This gives nothing away,
// because only root on a machine has its token, and root has its key as well. A node that was limited to some
// tenants stays limited to them.
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
