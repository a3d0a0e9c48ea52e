package master

import (
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// DeriveVRF gives a tenant its routing domain: the lowest number no other has.
func DeriveVRF(tx *ledger.Tx, tenant string) error {
	number, err := resources.LowestVRF(numbers{tx, vrfSet})
	if err != nil {
		return err
	}
	return ledger.Write(tx, mastercfg.VRFPrefix+tenant, mastercfg.VRFState{ID: tenant, VRF: number})
}
