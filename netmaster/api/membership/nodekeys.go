package membership

import (
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// takeBack revokes the key that a node has joined with, for ever: it may have been stolen, and if the node joined with it
// again, the thief would count as the node again. That takes some 150 bytes for each removal or rekeying.
func takeBack(tx *ledger.Tx, node mastercfg.Joined, now time.Time) error {
	if node.Key == "" {
		return nil
	}
	return ledger.Write(tx, mastercfg.TakenKeyPrefix+node.Key, mastercfg.TakenKey{Host: node.Host, Taken: now})
}

// stillGood fails if the key that a node, not a netmaster, joins with was taken back from it, or from another node.
func stillGood(r ledger.Reader, kind identity.Kind, key string) error {
	if kind != identity.Node {
		return nil
	}
	taken, err := ledger.Read[mastercfg.TakenKey](r, mastercfg.TakenKeyPrefix+key)
	if err != nil {
		return either(err, nil)
	}
	return useless("the key was taken back from node %s at %s (netctl node rm, rekey), and counts no more: the node needs another one. "+
		"netplugin makes it; one of an earlier version has none until its --pki-dir is emptied and it is started again",
		taken.Host, taken.Taken.UTC().Format(time.RFC3339))
}

// useless is the refusal of a key with which the node need not try again.
func useless(format string, args ...any) error {
	return fault.New(fault.Denied, format, args...).WithField(mastercfg.KeyField)
}
