package api

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

func createAciGw(c *change, g *contivmodel.AciGw) error {
	warnOfProfiles(c)
	return c.put(g)
}

func updateAciGw(c *change, stored, wanted *contivmodel.AciGw) error {
	warnOfProfiles(c)
	*stored = *wanted
	return c.put(stored)
}

// warnOfProfiles tells that what profiles were made under other settings.
func warnOfProfiles(c *change) {
	if n := appProfiles(c); n > 0 {
		c.config.Log.WithField("appProfiles", n).Warn("aciGw changes while there are application profiles")
	}
}

func removeAciGw(c *change, g *contivmodel.AciGw) error {
	if n := appProfiles(c); n > 0 {
		return fault.New(fault.InUse, "%d App-Profiles found. Delete them first", n)
	}
	master.Drop(c.Tx, g)
	return nil
}

func inspectAciGw(v *view, g *contivmodel.AciGw) (any, error) {
	return contivmodel.AciGwInspect{Config: *g, Oper: contivmodel.AciGwOper{NumAppProfiles: appProfiles(v)}}, nil
}

// appProfiles counts the application profiles of all tenants.
func appProfiles(r objdb.Reader) int {
	n := 0
	r.Range(mastercfg.ModelKey("appProfile", ""), func(string, []byte) bool {
		n++
		return true
	})
	return n
}
