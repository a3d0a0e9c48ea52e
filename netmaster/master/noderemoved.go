package master

import (
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// NodeRemoved takes a node out that nobody believes any more: its registrations go, so that others send it nothing,
// and the next sweep of a NodeCollector frees its endpoints, without waiting for it to come back. If it does, with
// another key, its agent announces again which pods it has.
func NodeRemoved(tx *ledger.Tx, host string, now time.Time) error {
	for _, key := range registrations(tx, host) {
		tx.Delete(key)
	}
	at := now.UTC().Format(time.RFC3339)
	return ledger.Write(tx, mastercfg.NodeGCPrefix+host, mastercfg.NodeGC{ID: host, DownSince: at, Deadline: at, Remaining: time.Duration(0).String()})
}
