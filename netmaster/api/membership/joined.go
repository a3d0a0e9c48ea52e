package membership

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// joined answers the nodes, or netmasters, that have joined, below a prefix.
func (m *Members) joined(prefix string) rest.Answer {
	return func(*http.Request) (rest.Reply, error) {
		return rest.Reply{From: func(r ledger.Reader) (rest.Reply, error) {
			all, err := ledger.ReadAll[mastercfg.Joined](r, prefix)
			for i := range all {
				all[i].MustJoin = m.MustJoin(all[i])
			}
			return rest.Reply{Body: all}, err
		}}, nil
	}
}

// MustJoin reports whether a node can no longer renew its certificate: it expired too long ago, or the CAs were
// replaced while the node was away, so that it trusts no netmaster of its cluster.
func (m *Members) MustJoin(node mastercfg.Joined) bool {
	by, err := m.Authorities()
	if err != nil || len(node.Knows) == 0 { // it has joined before Knows was recorded
		return false
	}
	return !slices.Contains(node.Knows, pki.KeyHash(by[pki.API].Certificate)) || m.term.Now().After(node.Expires.Add(renewable))
}

// removeJoined detaches a name from its key. From then on the certificate of a node is refused, as are others for the
// same key, and its endpoints are released; the name of a netmaster is refused until one joins under it.
func (m *Members) removeJoined(what, prefix string) rest.Answer {
	return m.unjoin(what, prefix, func(tx *ledger.Tx, at string, record mastercfg.Joined, _ error) error {
		tx.Delete(at)
		if host, isNode := strings.CutPrefix(at, mastercfg.NodePrefix); isNode {
			return master.NodeRemoved(tx, host, m.term.Now())
		}
		return m.removeMaster(tx, strings.TrimPrefix(at, mastercfg.MasterPrefix), record)
	})
}

// rekey lets the next machine with a join token have the name. The key of a node is revoked as in removeJoined.
func (m *Members) rekey(what, prefix string) rest.Answer {
	return m.unjoin(what, prefix, func(tx *ledger.Tx, at string, record mastercfg.Joined, err error) error {
		if err != nil {
			return err
		}
		record.Key = ""
		return ledger.Write(tx, at, record)
	})
}

// unjoin changes the record of a node or netmaster that has joined, even an unreadable one, and revokes a node's key.
func (m *Members) unjoin(what, prefix string, change func(tx *ledger.Tx, at string, record mastercfg.Joined, err error) error) rest.Answer {
	return func(r *http.Request) (rest.Reply, error) {
		host := mux.Vars(r)["host"]
		rev, err := m.term.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
			record, err := ledger.Read[mastercfg.Joined](tx, prefix+host)
			if fault.Is(err, fault.NotFound) {
				return fault.New(fault.NotFound, "%s %s has not joined", what, host)
			}
			auth.CallerFrom(r.Context()).SetSubject(aboutJoined(prefix, host, record.Key))
			if err == nil && prefix == mastercfg.NodePrefix {
				if err := revokeKey(tx, record, m.term.Now()); err != nil {
					return err
				}
			}
			return change(tx, prefix+host, record, err)
		})
		return rest.Reply{Body: host, Revision: rev}, err
	}
}

// aboutJoined describes a record below a prefix for the audit log.
func aboutJoined(prefix, host, key string) string {
	kind := identity.Node
	if prefix == mastercfg.MasterPrefix {
		kind = identity.Master
	}
	return fmt.Sprintf("%s with key %s", identity.Identity{Kind: kind, Name: host}, cmp.Or(key, "none"))
}
