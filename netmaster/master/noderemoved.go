package master

import (
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// removedFor is how long a node that was removed may still be registered: nobody renews its leases, which
// last a minute at most. One that is registered after that is back.
const removedFor = 2 * time.Minute

// NodeRemoved takes its time from a node that nobody believes any more: as soon as its registrations have ended, a NodeCollector
// frees its endpoints. If it is back before, with another key, it keeps them; after that its agent announces again which pods it has.
func NodeRemoved(tx *ledger.Tx, host string, now time.Time) error {
	at := now.UTC().Format(time.RFC3339)
	return ledger.Write(tx, mastercfg.NodeGCPrefix+host, mastercfg.NodeGC{ID: host, DownSince: at, Deadline: at, Remaining: time.Duration(0).String()})
}

// NodeLeft notes a node of which an endpoint is freed while its agent is not registered: when it has none any more, a
// NodeCollector deletes what it has reported.
func NodeLeft(tx *ledger.Tx, host string) error {
	if _, noted := tx.Get(mastercfg.NodeGCPrefix + host); noted {
		return nil
	}
	return ledger.Write(tx, mastercfg.NodeGCPrefix+host, mastercfg.NodeGC{ID: host})
}

// NodeReturned gives a node that joins its time: one that was removed, and that is away for a moment again, keeps its endpoints
// for as long as any other.
func NodeReturned(tx *ledger.Tx, host string) { tx.Delete(mastercfg.NodeGCPrefix + host) }

// wasJustRemoved tells whether a record is one of NodeRemoved that may still be needed.
func wasJustRemoved(record mastercfg.NodeGC, now time.Time) bool {
	left, err := time.ParseDuration(record.Remaining)
	since, bad := time.Parse(time.RFC3339, record.DownSince)
	return err == nil && bad == nil && left == 0 && now.Sub(since).Abs() < removedFor
}
