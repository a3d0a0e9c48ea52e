package api

import (
	"context"
	"net/http"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Vouch tells which node or netmaster a token is of that others have given out. Errors are
// fault.Denied for who is none.
type Vouch func(ctx context.Context, token string) (identity.Identity, error)

// joinVouched makes a node or a netmaster of who shows a token that is vouched for. Such a token is
// that of one name, so the name is given to another key as well: a machine that was set up
// anew comes back by itself, and who has the token of a machine is root there, who has its
// key, too. The tenants that a node was limited to it stays limited to.
func (a *API) joinVouched(r *http.Request, request *mastercfg.JoinRequest) (reply, error) {
	wanted, err := a.asked(request.CSR)
	if err != nil {
		return reply{}, err
	}
	who, err := a.config.Vouch(r.Context(), request.Token)
	if err != nil {
		return reply{}, err
	}
	if who.Kind == identity.Node && who.Name != request.Host {
		return reply{}, fault.New(fault.Denied, "join token: it is that of node %s, and node %s shows it", who.Name, request.Host).WithField("host")
	}
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		if err := stillGood(tx, who.Kind, wanted.hash); err != nil {
			return err
		}
		at := joinedAt(string(who.Kind), who.Name)
		before, err := ledger.Read[mastercfg.Joined](tx, at)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		joined := mastercfg.Joined{Host: who.Name, Key: wanted.hash, Addresses: request.Addresses, VTEPs: request.VTEPs,
			Tenants: before.Tenants, Token: mastercfg.VouchedToken, Joined: wanted.now}
		if before.Key == wanted.hash && joined.IsAt(before) {
			joined.Joined = before.Joined
		}
		return wanted.admit(tx, at, who.Kind, joined)
	})
	return reply{body: wanted.answer, revision: rev}, err
}

// KnownBy is what the certificates of netmasters are signed by, as PEM; empty: nothing yet.
func (a *API) KnownBy() string {
	all, err := a.authorities()
	if err != nil {
		return ""
	}
	return string(pki.EncodeCertificates(all[pki.API].Bundle()...))
}
