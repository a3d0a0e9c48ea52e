package master

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// repairHeld frees the addresses that are held for nobody any more: an endpoint
// or service has them, their network is gone, or nobody came for them. Who asked
// for one may be about to create the endpoint, so that one is freed only when it
// was held in the last run already: suspects are those; next are those of this run.
func repairHeld(tx *ledger.Tx, suspects, next map[string]bool) (findings, error) {
	var found findings
	tx.Range(mastercfg.HeldPrefix, func(key string, _ []byte) bool {
		networkID, text, _ := strings.Cut(key[len(mastercfg.HeldPrefix):], "/")
		addr, err := netip.ParseAddr(text)
		_, known := tx.Get(mastercfg.NetworkPrefix + networkID)
		why := ""
		switch {
		case err != nil || !known:
			why = "is of a network that is gone"
		case endpointAt(tx, networkID, addr) != "" || serviceAt(tx, networkID, addr) != "":
			why = "was held and in use"
		case suspects[key]:
			why = "had no owner"
		default:
			next[key] = true
			return true
		}
		tx.Delete(key)
		found = append(found, fmt.Sprintf("network %s: address %s %s", networkID, text, why))
		return true
	})
	return found, nil
}
