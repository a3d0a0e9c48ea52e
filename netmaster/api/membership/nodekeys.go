package membership

import (
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// revokeKey revokes the key with which a node has joined, for ever: it may have been stolen, and if the node joined
// with it again, the thief would be accepted as the node again. Each removal or rekeying takes some 150 bytes.
func revokeKey(tx *ledger.Tx, node mastercfg.Joined, now time.Time) error {
	if node.Key == "" {
		return nil
	}
	return ledger.Write(tx, mastercfg.TakenKeyPrefix+node.Key, mastercfg.TakenKey{Host: node.Host, Taken: now})
}

// checkNotRevoked returns an error if the key with which a node joins was revoked, for this or another node. Keys
// of netmasters are not revoked.
func checkNotRevoked(r ledger.Reader, kind identity.Kind, key string) error {
	if kind != identity.Node {
		return nil
	}
	taken, err := ledger.Read[mastercfg.TakenKey](r, mastercfg.TakenKeyPrefix+key)
	if err != nil {
		return orMissing(err, nil)
	}
	return finalRefusal("the key was taken back from node %s at %s (netctl node rm, rekey), and counts no more: the node needs another one. "+
		"netplugin makes it; one of an earlier version has none until its --pki-dir is emptied and it is started again",
		taken.Host, taken.Taken.UTC().Format(time.RFC3339))
}

// finalRefusal returns the refusal of a key with which the node must not retry.
func finalRefusal(format string, args ...any) error {
	return fault.New(fault.Denied, format, args...).WithField(mastercfg.KeyField)
}
