package objects

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/utils/fault"
)

func createBgp(c *Change, b *contivmodel.Bgp) error {
	inFabric, err := master.InFabric(c)
	if err != nil {
		return err
	}
	if inFabric {
		return fault.New(fault.Mode, "not supported in ACI fabric mode")
	}
	if _, err := master.BgpRecord(b).Speaker(); err != nil {
		return err
	}
	if err := master.DeriveBgp(c.Tx, b); err != nil {
		return err
	}
	return c.put(b)
}

// updateBgp replaces everything but the key.
func updateBgp(c *Change, stored, wanted *contivmodel.Bgp) error {
	*stored = *wanted
	return createBgp(c, stored)
}

func removeBgp(c *Change, b *contivmodel.Bgp) error {
	master.RemoveBgp(c.Tx, b.Hostname)
	master.Drop(c.Tx, b)
	return nil
}

func inspectBgp(v *View, b *contivmodel.Bgp) (any, error) {
	oper, err := v.Speaker(b.Hostname)
	return contivmodel.BgpInspect{Config: *b, Oper: oper}, err
}
