package objects

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

func createAciGw(c *Change, g *contivmodel.AciGw) error {
	warnOfProfiles(c)
	return c.put(g)
}

func updateAciGw(c *Change, stored, wanted *contivmodel.AciGw) error {
	warnOfProfiles(c)
	*stored = *wanted
	return c.put(stored)
}

// warnOfProfiles logs that existing application profiles were created under other settings.
func warnOfProfiles(c *Change) {
	if n := len(appProfiles(c)); n > 0 {
		c.Config.Log.WithField("appProfiles", n).Warn("aciGw changes while there are application profiles")
	}
}

func removeAciGw(c *Change, g *contivmodel.AciGw) error {
	if profiles := appProfiles(c); len(profiles) > 0 {
		return fault.New(fault.InUse, "%d App-Profiles found. Delete them first", len(profiles)).WithDetails(profiles...)
	}
	master.Drop(c.Tx, g)
	return nil
}

func inspectAciGw(v *View, g *contivmodel.AciGw) (any, error) {
	return contivmodel.AciGwInspect{Config: *g, Oper: contivmodel.AciGwOper{NumAppProfiles: len(appProfiles(v))}}, nil
}

// appProfiles lists the application profiles of all tenants.
func appProfiles(r ledger.Reader) []string {
	var all []string
	prefix := mastercfg.ModelKey("appProfile", "")
	r.Range(prefix, func(key string, _ []byte) bool {
		all = append(all, "appProfile "+key[len(prefix):])
		return true
	})
	return all
}
