package membership

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/jointoken"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// notOpen refuses all clients, including root, in an open cluster: a join, or a token, that any client could
// get in it would be valid after it is closed. It may have CAs already, while it is about to be closed.
func notOpen(serve rest.Answer) rest.Answer {
	return func(r *http.Request) (rest.Reply, error) {
		if auth.CallerFrom(r.Context()) == nil {
			return rest.Reply{}, fault.New(fault.Mode, "%s %s: the cluster is open, and who joins it now would belong to it once it is closed: netctl security init begins to close it", r.Method, r.URL.Path)
		}
		return serve(r)
	}
}

// createJoinToken creates a token and answers its text, this once.
func (m *Members) createJoinToken(r *http.Request, request *mastercfg.NewJoinToken) (rest.Reply, error) {
	if err := Confidential(r); err != nil {
		return rest.Reply{}, err
	}
	by, err := m.Authorities()
	if err != nil {
		return rest.Reply{}, err
	}
	life := jointoken.DefaultLife
	if request.TTL != "" {
		if life, err = time.ParseDuration(request.TTL); err != nil {
			return rest.Reply{}, fault.New(fault.Invalid, "join token: ttl %.40q: want a time such as 24h", request.TTL).WithField("ttl")
		}
	}
	now := m.term.Now().UTC()
	record := mastercfg.JoinToken{Role: request.Role, Host: request.Host, Tenants: request.Tenants, Uses: request.Uses,
		Creator: identity.From(r.Context()).String(), Created: now, Expires: now.Add(life)}
	if err := jointoken.Check(&record, life); err != nil {
		return rest.Reply{}, err
	}
	token, err := jointoken.New(pki.KeyHash(by[pki.API].Certificate))
	if err != nil {
		return rest.Reply{}, err
	}
	record.ID, record.Digest = token.ID, token.Digest()
	auth.CallerFrom(r.Context()).SetSubject(aboutJoinToken(record))
	rev, err := m.term.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.JoinTokenPrefix+record.ID, record)
	})
	record.Digest = ""
	return rest.Reply{Body: mastercfg.ShownJoinToken{Token: token.Text(), Record: record}, Revision: rev}, err
}

// aboutJoinToken describes a token for the audit log.
func aboutJoinToken(t mastercfg.JoinToken) string {
	uses, tenants := "any number of times", "*"
	if t.Uses > 0 {
		uses = fmt.Sprintf("%d times", t.Uses)
	}
	if len(t.Tenants) > 0 {
		tenants = strings.Join(t.Tenants, ",")
	}
	return fmt.Sprintf("join token %s for %s/%s, %s, until %s, in %s", t.ID, t.Role, t.Host, uses, t.Expires.UTC().Format(time.RFC3339), tenants)
}

// joinTokens answers all tokens, valid or not.
func (m *Members) joinTokens(*http.Request) (rest.Reply, error) {
	return rest.Reply{From: func(r ledger.Reader) (rest.Reply, error) {
		all, err := ledger.ReadAll[mastercfg.JoinToken](r, mastercfg.JoinTokenPrefix)
		for i := range all {
			all[i].Digest = ""
		}
		return rest.Reply{Body: all}, err
	}}, nil
}

// removeJoinToken revokes a token. Nodes that have joined with it stay.
func (m *Members) removeJoinToken(r *http.Request) (rest.Reply, error) {
	id := mux.Vars(r)["id"]
	rev, err := m.term.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		record, err := ledger.Read[mastercfg.JoinToken](tx, mastercfg.JoinTokenPrefix+id)
		switch {
		case fault.Is(err, fault.NotFound):
			return fault.New(fault.NotFound, "join token %s: there is none", id)
		case err == nil: // an unreadable one is removed all the same
			auth.CallerFrom(r.Context()).SetSubject(aboutJoinToken(record))
		}
		tx.Delete(mastercfg.JoinTokenPrefix + id)
		return nil
	})
	return rest.Reply{Body: id, Revision: rev}, err
}
