package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// repairBgps gives every BGP speaker of the model its record, and only those.
func repairBgps(tx *ledger.Tx) (findings, error) {
	var found findings
	err := each(tx, mastercfg.ModelKey("Bgp", ""), func(_ string, b contivmodel.Bgp) error {
		changed, err := changes(tx, func() error { return DeriveBgp(tx, &b) }, mastercfg.BgpPrefix+b.Hostname)
		if changed {
			found = append(found, "record of bgp of host "+b.Hostname+" made anew")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	tx.Range(mastercfg.BgpPrefix, func(key string, _ []byte) bool {
		if host := key[len(mastercfg.BgpPrefix):]; !Exists(tx, "Bgp", host) {
			found = append(found, "record of bgp of host "+host+", which is gone, deleted")
			RemoveBgp(tx, host)
		}
		return true
	})
	return found, nil
}
