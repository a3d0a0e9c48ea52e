package objects

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// DefaultPvtSubnet is the default of the hosts' private subnet.
const DefaultPvtSubnet = "172.19.0.0/16"

// defaultFabric is the fabric mode of a new cluster if nothing else is said.
const defaultFabric = "default"

// createGlobal creates the pools and the modes. Empty modes are those of the daemon's flags.
func createGlobal(c *Change, g *contivmodel.Global) error {
	defaults := &c.Config.Defaults
	g.ArpMode = cmp.Or(g.ArpMode, defaults.ArpMode)
	g.FwdMode = cmp.Or(g.FwdMode, defaults.FwdMode)
	g.NetworkInfraType = cmp.Or(g.NetworkInfraType, defaults.NetworkInfraType, defaultFabric)
	if err := checkFabric(g.NetworkInfraType); err != nil {
		return err
	}
	if err := resources.CheckPrivateSubnet(g.PvtSubnet); err != nil {
		return err
	}
	vlans, err := resources.ParseVLANRange(g.Vlans)
	if err != nil {
		return err
	}
	vxlans, err := resources.ParseVXLANRange(g.Vxlans)
	if err != nil {
		return err
	}
	if err := master.PutVLANs(c.Tx, resources.DefineVLANs(vlans)); err != nil {
		return err
	}
	config := resources.DefineVXLANs(vxlans)
	if err := master.PutVXLANs(c.Tx, config); err != nil {
		return err
	}
	return putGlobal(c, g, config.FreeVXLANsStart)
}

func checkFabric(infra string) error {
	switch infra {
	case "", "aci", "aci-opflex", defaultFabric:
		return nil
	}
	return fault.New(fault.Invalid, "invalid fabric mode %s", infra).WithField("networkInfraType")
}

// putGlobal stores the object and the records with the same fields for agents.
func putGlobal(c *Change, g *contivmodel.Global, freeVXLANsStart uint) error {
	if err := master.DeriveGlobal(c.Tx, g, freeVXLANsStart); err != nil {
		return err
	}
	return master.Put(c.Tx, g)
}

// updateGlobal changes the fields that the request changes; an empty mode keeps the stored one.
func updateGlobal(c *Change, stored, wanted *contivmodel.Global) error {
	if err := checkFabric(wanted.NetworkInfraType); err != nil {
		return err
	}
	vlans, err := master.VLANs(c)
	if err != nil {
		return err
	}
	vxlans, err := master.VXLANs(c)
	if err != nil {
		return err
	}
	inUse := existing(vlans.Count(), vxlans.Count())
	if mode := cmp.Or(wanted.FwdMode, stored.FwdMode); mode != stored.FwdMode {
		if inUse != "" {
			return fault.New(fault.InUse, "Unable to update forwarding mode due to %s", inUse).WithField("fwdMode")
		}
		if stored.FwdMode == "routing" && HoldsAny(c, mastercfg.ModelKey("Bgp", "")) {
			return fault.New(fault.InUse, "please delete existing Bgp configs").WithField("fwdMode")
		}
		stored.FwdMode = mode
	}
	if wanted.PvtSubnet != stored.PvtSubnet {
		first := stored.PvtSubnet == "" && wanted.PvtSubnet == DefaultPvtSubnet
		if inUse != "" && !first {
			return fault.New(fault.InUse, "Unable to update private subnet due to %s", inUse).WithField("pvtSubnet")
		}
		if err := resources.CheckPrivateSubnet(wanted.PvtSubnet); err != nil {
			return err
		}
		stored.PvtSubnet = wanted.PvtSubnet
	}
	if err := resize(c, stored, wanted, &vlans, &vxlans); err != nil {
		return err
	}
	stored.ArpMode = cmp.Or(wanted.ArpMode, stored.ArpMode)
	infra := stored.NetworkInfraType
	stored.NetworkInfraType = cmp.Or(wanted.NetworkInfraType, infra)
	if err := putGlobal(c, stored, vxlans.Config.FreeVXLANsStart); err != nil || infra == stored.NetworkInfraType {
		return err
	}
	return master.RewriteRules(c.Tx) // a fabric enforces them itself
}

// resize changes the pools whose range the request changes.
func resize(c *Change, stored, wanted *contivmodel.Global, vlans *resources.VLANPool, vxlans *resources.VXLANPool) error {
	for _, pool := range []struct {
		stored *string
		wanted string
		parse  func(string) (resources.TagRange, error)
		resize func(resources.TagRange) error
		put    func() error
	}{
		{&stored.Vlans, wanted.Vlans, resources.ParseVLANRange, vlans.Resize, func() error { return master.PutVLANs(c.Tx, vlans.Config) }},
		{&stored.Vxlans, wanted.Vxlans, resources.ParseVXLANRange, vxlans.Resize, func() error { return master.PutVXLANs(c.Tx, vxlans.Config) }},
	} {
		if pool.wanted == *pool.stored {
			continue
		}
		r, err := pool.parse(pool.wanted)
		if err != nil {
			return err
		}
		if err := pool.resize(r); err != nil {
			return err
		}
		*pool.stored = pool.wanted
		if err := pool.put(); err != nil {
			return err
		}
	}
	return nil
}

// removeGlobal deletes modes and pools, unless networks use them.
func removeGlobal(c *Change, g *contivmodel.Global) error {
	vlans, err := master.VLANs(c)
	if err != nil {
		return err
	}
	vxlans, err := master.VXLANs(c)
	if err != nil {
		return err
	}
	if inUse := existing(vlans.Count(), vxlans.Count()); inUse != "" {
		return fault.New(fault.InUse, "cannot delete global due to %s", inUse)
	}
	for _, key := range []string{
		mastercfg.GlobalConfigKey, mastercfg.GlobalStateKey, mastercfg.GlobalOperKey,
		mastercfg.VLANConfigKey, mastercfg.VXLANConfigKey,
	} {
		c.Delete(key)
	}
	master.Drop(c.Tx, g)
	return nil
}

func inspectGlobal(r *View, g *contivmodel.Global) (any, error) {
	vlans, err := master.VLANs(r)
	if err != nil {
		return nil, err
	}
	vxlans, err := master.VXLANs(r)
	if err != nil {
		return nil, err
	}
	oper, err := ledger.Read[mastercfg.GlobalOper](r, mastercfg.GlobalOperKey)
	if err != nil {
		return nil, err
	}
	shown := contivmodel.GlobalOper{DefaultNetwork: oper.DefaultNetwork, FreeVXLANsStart: int(oper.FreeVXLANsStart), ClusterMode: r.ClusterMode}
	if r.OfCluster {
		shown.NumNetworks, shown.VlansInUse, shown.VxlansInUse = vlans.Count()+vxlans.Count(), vlans.InUse(), vxlans.InUse()
	}
	return contivmodel.GlobalInspect{Config: *g, Oper: shown}, nil
}

// existing lists what prevents a change: "existing 2 vlans and 1 vxlans", or nothing.
func existing(vlans, vxlans int) string {
	var parts []string
	if vlans > 0 {
		parts = append(parts, fmt.Sprintf("%d vlans", vlans))
	}
	if vxlans > 0 {
		parts = append(parts, fmt.Sprintf("%d vxlans", vxlans))
	}
	if parts == nil {
		return ""
	}
	return "existing " + strings.Join(parts, " and ")
}

// HoldsAny reports whether the store has a key with the prefix.
func HoldsAny(r ledger.Reader, prefix string) bool {
	any := false
	r.Range(prefix, func(string, []byte) bool {
		any = true
		return false
	})
	return any
}
