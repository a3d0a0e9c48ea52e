package api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/netmaster/api/asking"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/jointoken"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// notOpen refuses everybody, root as well, in a cluster that is open: the place that anybody could take in it, or make a token
// for, would count once it is closed. It may have authorities already, while it is about to be closed.
func notOpen(serve rest.Answer) rest.Answer {
	return func(r *http.Request) (rest.Reply, error) {
		if asking.Of(r.Context()) == nil {
			return rest.Reply{}, fault.New(fault.Mode, "%s %s: the cluster is open, and who joins it now would belong to it once it is closed: netctl security init begins to close it", r.Method, r.URL.Path)
		}
		return serve(r)
	}
}

// createJoinToken makes a token and shows it, this once.
func (a *API) createJoinToken(r *http.Request, request *mastercfg.NewJoinToken) (rest.Reply, error) {
	if err := Confidential(r); err != nil {
		return rest.Reply{}, err
	}
	by, err := a.authorities()
	if err != nil {
		return rest.Reply{}, err
	}
	life := jointoken.DefaultLife
	if request.TTL != "" {
		if life, err = time.ParseDuration(request.TTL); err != nil {
			return rest.Reply{}, fault.New(fault.Invalid, "join token: ttl %.40q: want a time such as 24h", request.TTL).WithField("ttl")
		}
	}
	now := a.config.Now().UTC()
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
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.JoinTokenPrefix+record.ID, record)
	})
	record.Digest = ""
	return rest.Reply{Body: mastercfg.ShownJoinToken{Token: token.Text(), Record: record}, Revision: rev}, err
}

// joinTokens lists the tokens that can still be used, and those that cannot.
func (a *API) joinTokens(*http.Request) (rest.Reply, error) {
	return rest.Reply{From: func(r ledger.Reader) (rest.Reply, error) {
		all, err := ledger.ReadAll[mastercfg.JoinToken](r, mastercfg.JoinTokenPrefix)
		for i := range all {
			all[i].Digest = ""
		}
		return rest.Reply{Body: all}, err
	}}, nil
}

// removeJoinToken makes a token useless. Who has joined with it stays.
func (a *API) removeJoinToken(r *http.Request) (rest.Reply, error) {
	return a.removeRecord(r, "join token", mastercfg.JoinTokenPrefix, mux.Vars(r)["id"])
}

// joined lists who has joined below a prefix.
func (a *API) joined(prefix string) rest.Answer {
	return func(*http.Request) (rest.Reply, error) {
		return rest.Reply{From: func(r ledger.Reader) (rest.Reply, error) {
			all, err := ledger.ReadAll[mastercfg.Joined](r, prefix)
			for i := range all {
				all[i].MustJoin = a.mustJoin(all[i])
			}
			return rest.Reply{Body: all}, err
		}}, nil
	}
}

// mustJoin tells whether a node cannot renew its certificate any more: that has ended too long
// ago, or the authorities were replaced while the node was away, so that it takes no netmaster
// for one of its cluster.
func (a *API) mustJoin(node mastercfg.Joined) bool {
	by, err := a.authorities()
	if err != nil || len(node.Knows) == 0 { // it has joined before this was written down
		return false
	}
	return !slices.Contains(node.Knows, pki.KeyHash(by[pki.API].Certificate)) || a.config.Now().After(node.Expires.Add(renewable))
}

// removeJoined takes the name from a key. A node is not known by its certificate from then
// on, nor by another one for that key, and its endpoints are freed; a netmaster is not known by its name until one joins
// under it.
func (a *API) removeJoined(what, prefix string) rest.Answer {
	return a.unjoin(what, prefix, func(tx *ledger.Tx, at string, record mastercfg.Joined, _ error) error {
		tx.Delete(at)
		if host, isNode := strings.CutPrefix(at, mastercfg.NodePrefix); isNode {
			return master.NodeRemoved(tx, host, a.config.Now())
		}
		return a.dismiss(tx, strings.TrimPrefix(at, mastercfg.MasterPrefix), record.Addresses)
	})
}

// rekey lets the next one who shows a token have the name. What removeJoined says of the
// key of a node holds here, too.
func (a *API) rekey(what, prefix string) rest.Answer {
	return a.unjoin(what, prefix, func(tx *ledger.Tx, at string, record mastercfg.Joined, err error) error {
		if err != nil {
			return err
		}
		record.Key = ""
		return ledger.Write(tx, at, record)
	})
}

// unjoin changes the record of who has joined, if it can be read or not, and takes the key back from a node.
func (a *API) unjoin(what, prefix string, change func(tx *ledger.Tx, at string, record mastercfg.Joined, err error) error) rest.Answer {
	return func(r *http.Request) (rest.Reply, error) {
		host := mux.Vars(r)["host"]
		rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) error {
			record, err := ledger.Read[mastercfg.Joined](tx, prefix+host)
			if fault.Is(err, fault.NotFound) {
				return fault.New(fault.NotFound, "%s %s has not joined", what, host)
			}
			if err == nil && prefix == mastercfg.NodePrefix {
				if err := takeBack(tx, record, a.config.Now()); err != nil {
					return err
				}
			}
			return change(tx, prefix+host, record, err)
		})
		return rest.Reply{Body: host, Revision: rev}, err
	}
}

func (a *API) removeRecord(r *http.Request, what, prefix, name string) (rest.Reply, error) {
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		if _, known := tx.Get(prefix + name); !known {
			return fault.New(fault.NotFound, "%s %s: there is none", what, name)
		}
		tx.Delete(prefix + name)
		return nil
	})
	return rest.Reply{Body: name, Revision: rev}, err
}
