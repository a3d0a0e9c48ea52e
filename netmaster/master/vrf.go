package master

import (
	"encoding/json"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// DeriveVRF gives a tenant its routing domain: the lowest number no other has.
func DeriveVRF(tx *ledger.Tx, tenant *contivmodel.Tenant) error {
	number, err := resources.LowestVRF(numbers{tx, vrfSet})
	if err != nil {
		return err
	}
	return ledger.Write(tx, mastercfg.VRFPrefix+tenant.TenantName, mastercfg.VRFState{ID: tenant.TenantName, VRF: number, PolicyMode: tenant.PolicyMode})
}

// DerivePolicyMode brings the mode in the record of a tenant's routing domain up to date. One that has no record, or
// one that cannot be read, gets it when that is repaired.
func DerivePolicyMode(tx *ledger.Tx, tenant *contivmodel.Tenant) error {
	key := mastercfg.VRFPrefix + tenant.TenantName
	vrf, ok := readSound[mastercfg.VRFState](tx, key)
	if !ok {
		return nil
	}
	vrf.PolicyMode = tenant.PolicyMode
	return ledger.Write(tx, key, vrf)
}

// modeIn is the mode in the record of a routing domain; one that cannot be read has none.
func modeIn(record []byte) string {
	var vrf mastercfg.VRFState
	_ = json.Unmarshal(record, &vrf) // it stays without one
	return vrf.PolicyMode
}
