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

// joined lists the nodes, or netmasters, that have joined, below their prefix.
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

// MustJoin tells whether a node cannot renew its certificate any more: that has ended too long
// ago, or the authorities were replaced while the node was away, so that it takes no netmaster
// for one of its cluster.
func (m *Members) MustJoin(node mastercfg.Joined) bool {
	by, err := m.Authorities()
	if err != nil || len(node.Knows) == 0 { // it has joined before this was written down
		return false
	}
	return !slices.Contains(node.Knows, pki.KeyHash(by[pki.API].Certificate)) || m.term.Now().After(node.Expires.Add(renewable))
}

// removeJoined takes the name from a key. A node is not known by its certificate from then
// on, nor by another one for that key, and its endpoints are freed; a netmaster is not known by its name until one joins
// under it.
func (m *Members) removeJoined(what, prefix string) rest.Answer {
	return m.unjoin(what, prefix, func(tx *ledger.Tx, at string, record mastercfg.Joined, _ error) error {
		tx.Delete(at)
		if host, isNode := strings.CutPrefix(at, mastercfg.NodePrefix); isNode {
			return master.NodeRemoved(tx, host, m.term.Now())
		}
		return m.removeMaster(tx, strings.TrimPrefix(at, mastercfg.MasterPrefix), record)
	})
}

// rekey lets the next machine with a join token have the name. What removeJoined says of the
// key of a node holds here, too.
func (m *Members) rekey(what, prefix string) rest.Answer {
	return m.unjoin(what, prefix, func(tx *ledger.Tx, at string, record mastercfg.Joined, err error) error {
		if err != nil {
			return err
		}
		record.Key = ""
		return ledger.Write(tx, at, record)
	})
}

// unjoin changes the record of a node or a netmaster that has joined, also one that cannot be read, and takes a node's key back.
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

// aboutJoined is what the audit log says of a record below a prefix.
func aboutJoined(prefix, host, key string) string {
	kind := identity.Node
	if prefix == mastercfg.MasterPrefix {
		kind = identity.Master
	}
	return fmt.Sprintf("%s with key %s", identity.Identity{Kind: kind, Name: host}, cmp.Or(key, "none"))
}
