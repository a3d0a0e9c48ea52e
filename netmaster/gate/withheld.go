package gate

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/secret"
)

// The password of a BGP speaker is encrypted in the store; the gate decrypts it for the node that is the
// speaker. A netmaster that was down while the key was replaced gets the present one a moment after it has begun
// to serve. Until then the gate withholds the record, and the node lists again when the keyring has changed.
// Otherwise the node would get an unusable password, end its sessions, and not get the right password later, as
// the record has the same revision. A node that lists meanwhile has no speaker until then.

// withheld has the nodes from which their record is withheld; the value reports whether the keyring has changed since.
type withheld struct {
	log   *logrus.Entry
	mu    sync.Mutex
	hosts map[string]bool
}

// withholds reports whether a record is withheld from a node at present, and records that.
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

// KeyringChanged makes nodes from which a record was withheld list again.
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

// isDue reports, once, whether a watch has to start again with a listing, because a record was withheld from it
// before.
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
