package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// repairGlobal writes the records of the global object that are missing or differ from it. Without that of the modes no
// agent begins to program its switch.
func repairGlobal(p *pass, key string) (findings, error) {
	g, ok := readSound[contivmodel.Global](p, key)
	if !ok || g.FwdMode == "" || g.PvtSubnet == "" { // agents would wait for it to be complete
		return nil, nil
	}
	vxlans, err := VXLANs(p)
	if err != nil {
		return nil, err
	}
	changed, err := changes(p, func() error { return DeriveGlobal(p.Tx, &g, vxlans.Config.FreeVXLANsStart) },
		mastercfg.GlobalConfigKey, mastercfg.GlobalStateKey, mastercfg.GlobalOperKey)
	if err != nil || !changed {
		return nil, err
	}
	return findings{"records of the global object made anew"}, nil
}
