package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// DeriveGlobal writes the records with the fields of the global object; freeVXLANsStart is the number before the range
// of VNIs.
func DeriveGlobal(tx *ledger.Tx, g *contivmodel.Global, freeVXLANsStart uint) error {
	oper := mastercfg.GlobalOper{ID: "global"}
	if stored, err := ledger.Read[mastercfg.GlobalOper](tx, mastercfg.GlobalOperKey); err == nil {
		oper = stored
	}
	oper.FreeVXLANsStart = freeVXLANsStart
	for key, record := range map[string]any{
		mastercfg.GlobalConfigKey: mastercfg.GlobConfig{
			NwInfraType: g.NetworkInfraType, FwdMode: g.FwdMode, ArpMode: g.ArpMode, PvtSubnet: g.PvtSubnet,
		},
		mastercfg.GlobalStateKey: mastercfg.GlobalState{Auto: mastercfg.AutoRanges{VLANs: g.Vlans, VXLANs: g.Vxlans}},
		mastercfg.GlobalOperKey:  oper,
	} {
		if err := ledger.Write(tx, key, record); err != nil {
			return err
		}
	}
	return nil
}
