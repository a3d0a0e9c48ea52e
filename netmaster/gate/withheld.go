package gate

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/secret"
)

// The password of a BGP speaker is sealed in the store, and opened for the node that is the
// speaker. A netmaster that was away while the key was replaced has the present one a moment after it has begun
// to serve. Until then it withholds the record, and the node lists again when the keyring has changed:
// told a password that it cannot use, it would give up its sessions, and not hear the right one later, as
// the record has the same revision. A node that lists meanwhile is without its speaker until then.

// withheld are the nodes from which their own record is withheld, by whether the keyring has changed since.
type withheld struct {
	log   *logrus.Entry
	mu    sync.Mutex
	hosts map[string]bool
}

// withholds tells whether a record is withheld from a node at present, and records that.
func (x *index) withholds(host, key string, value []byte) bool {
	if key != mastercfg.BgpPrefix+host || x.open == nil || !bytes.Contains(value, []byte(secret.SealedPrefix)) {
		return false
	}
	var record mastercfg.CfgBgpState
	if json.Unmarshal(value, &record) != nil {
		return false // seenBy
	}
	x.withheld.mu.Lock()
	defer x.withheld.mu.Unlock()
	_, err := x.open(mastercfg.ModelKey("Bgp", host), string(record.Password))
	if err == nil {
		return false
	}
	if _, known := x.withheld.hosts[host]; !known {
		x.withheld.log.WithError(err).WithField("host", host).Warn("the node is not told of its BGP speaker until its password opens: " +
			"another netmaster has to have the key, or the password has to be set again")
	}
	x.withheld.hosts[host] = false
	return true
}

// KeyringChanged has nodes list again from which something was withheld.
func (g *Gate) KeyringChanged() {
	x := g.index
	x.withheld.mu.Lock()
	for host := range x.withheld.hosts {
		x.withheld.hosts[host] = true
	}
	x.withheld.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recent.wake()
}

// isDue tells, once, whether a watch has to start again with a listing, because a record was withheld from it before.
func (x *index) isDue(host string, w *watch) bool {
	if key := mastercfg.BgpPrefix + host; key < w.key || key >= w.end {
		return false
	}
	x.withheld.mu.Lock()
	defer x.withheld.mu.Unlock()
	due := x.withheld.hosts[host]
	if due {
		delete(x.withheld.hosts, host)
	}
	return due
}
