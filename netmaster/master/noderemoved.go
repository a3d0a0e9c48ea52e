package master

import (
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// removedFor is how long a removed node may still be registered: its leases, which last a minute at most, are
// not renewed. A node that is registered after that is back.
const removedFor = 2 * time.Minute

// NodeRemoved ends the time of a node whose key is not trusted any more: as soon as its registrations have
// expired, a NodeCollector frees its endpoints. If it is back before, with another key, it keeps them; after
// that its agent announces its pods again.
func NodeRemoved(tx *ledger.Tx, host string, now time.Time) error {
	at := now.UTC().Format(time.RFC3339)
	return ledger.Write(tx, mastercfg.NodeGCPrefix+host, mastercfg.NodeGC{ID: host, DownSince: at, Deadline: at, Remaining: time.Duration(0).String()})
}

// NodeLeft records a node one of whose endpoints is freed while its agent is not registered: when it has none
// left, a NodeCollector deletes its reports.
func NodeLeft(tx *ledger.Tx, host string) error {
	if _, noted := tx.Get(mastercfg.NodeGCPrefix + host); noted {
		return nil
	}
	return ledger.Write(tx, mastercfg.NodeGCPrefix+host, mastercfg.NodeGC{ID: host})
}

// NodeReturned resets the time of a node that joins: one that was removed and is briefly away again keeps its
// endpoints as long as any other.
func NodeReturned(tx *ledger.Tx, host string) { tx.Delete(mastercfg.NodeGCPrefix + host) }

// wasJustRemoved reports whether a record is one of NodeRemoved that may still be needed.
func wasJustRemoved(record mastercfg.NodeGC, now time.Time) bool {
	left, err := time.ParseDuration(record.Remaining)
	since, bad := time.Parse(time.RFC3339, record.DownSince)
	return err == nil && bad == nil && left == 0 && now.Sub(since).Abs() < removedFor
}
