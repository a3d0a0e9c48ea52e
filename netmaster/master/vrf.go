package master

import (
	"strconv"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// DeriveVRF gives a tenant its routing domain: the lowest number no other has.
// The numbers in use are in an index, so the first gap there is it.
func DeriveVRF(tx *ledger.Tx, tenant string) error {
	number, err := resources.LowestFreeVRF(func(taken func(uint16) bool) {
		tx.Search(vrfTerm, "", func(term, _ string) bool {
			n, err := strconv.ParseUint(term[len(vrfTerm):], 10, 16)
			return err == nil && taken(uint16(n))
		})
	})
	if err != nil {
		return err
	}
	return ledger.Write(tx, mastercfg.VRFPrefix+tenant, mastercfg.VRFState{ID: tenant, VRF: number})
}
