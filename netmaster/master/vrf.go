package master

import (
	"encoding/json"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// DeriveVRF assigns a tenant its routing domain: the lowest free number.
func DeriveVRF(tx *ledger.Tx, tenant *contivmodel.Tenant) error {
	number, err := resources.LowestVRF(numbers{tx, vrfSet})
	if err != nil {
		return err
	}
	return ledger.Write(tx, mastercfg.VRFPrefix+tenant.TenantName, mastercfg.VRFState{ID: tenant.TenantName, VRF: number, PolicyMode: tenant.PolicyMode})
}

// DerivePolicyMode updates the mode in the record of a tenant's routing domain. If the record is missing or
// cannot be read, its repair sets the mode.
func DerivePolicyMode(tx *ledger.Tx, tenant *contivmodel.Tenant) error {
	key := mastercfg.VRFPrefix + tenant.TenantName
	vrf, ok := readSound[mastercfg.VRFState](tx, key)
	if !ok {
		return nil
	}
	vrf.PolicyMode = tenant.PolicyMode
	return ledger.Write(tx, key, vrf)
}

// modeIn returns the mode in the record of a routing domain; empty if it cannot be read.
func modeIn(record []byte) string {
	var vrf mastercfg.VRFState
	_ = json.Unmarshal(record, &vrf) // the mode stays empty
	return vrf.PolicyMode
}
