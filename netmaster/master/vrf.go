package master

import (
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb"
)

// DeriveVRF gives a tenant its routing domain: the lowest number no other has.
// There are few tenants, so the others' records serve as the pool.
func DeriveVRF(tx *objdb.Tx, tenant string) error {
	others, err := objdb.ReadAll[mastercfg.VRFState](tx, mastercfg.VRFPrefix)
	if err != nil {
		return err
	}
	number, err := resources.LowestFreeVRF(others)
	if err != nil {
		return err
	}
	return objdb.Write(tx, mastercfg.VRFPrefix+tenant, mastercfg.VRFState{ID: tenant, VRF: number})
}
