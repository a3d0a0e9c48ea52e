package objects

import (
	"net/netip"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

func createBgp(c *Change, b *contivmodel.Bgp) error { return putBgp(c, b, mastercfg.BgpSpeaker{}) }

// updateBgp replaces everything except the key.
func updateBgp(c *Change, stored, wanted *contivmodel.Bgp) error {
	before, err := master.BgpRecord(stored).Speaker()
	if err != nil {
		before = mastercfg.BgpSpeaker{} // nothing of it can be compared
	}
	*stored = *wanted
	return putBgp(c, stored, before)
}

// putBgp stores a speaker and its record. An unchanged address on the same link is not validated again: it may
// have been stored before this check existed, and the other fields must be changeable.
func putBgp(c *Change, b *contivmodel.Bgp, before mastercfg.BgpSpeaker) error {
	inFabric, err := master.InFabric(c)
	if err != nil {
		return err
	}
	if inFabric {
		return fault.New(fault.Mode, "not supported in ACI fabric mode")
	}
	speaker, err := master.BgpRecord(b).Speaker()
	if err != nil {
		return err
	}
	for _, link := range []struct {
		field       string // JSON name
		now, before netip.Prefix
	}{{"routerip", speaker.Link, before.Link}, {"ipv6Routerip", speaker.Link6, before.Link6}} {
		if link.now.IsValid() && link.now != link.before {
			if err := mayBeRouter(c, b.Hostname, link.field, link.now); err != nil {
				return err
			}
		}
	}
	if err := master.DeriveBgp(c.Tx, b); err != nil {
		return err
	}
	return c.put(b)
}

// mayBeRouter refuses an address of a node on the link of the outside
// routers that another host has: neighbours would confuse the two.
func mayBeRouter(c *Change, host, field string, link netip.Prefix) error {
	a := link.Addr()
	if mastercfg.OfAllRouters(link) {
		return fault.New(fault.Invalid, "%s %q: is the address of all routers of the link, want that of one host, such as 2001:db8::11/64", field, link).WithField(field)
	}
	if other := master.OtherRouter(c, a, host); other != "" {
		return fault.New(fault.Conflict, "%s %s of node %s is that of node %s", field, a, host, other).WithField(field).WithDetails("Bgp " + other)
	}
	if other := master.NodeAt(c, a); other != "" {
		return fault.New(fault.Conflict, "%s %s of node %s is the address at which node %s is reached: want one that no other interface has", field, a, host, other).WithField(field)
	}
	in, err := master.NetworkOutside(c, a)
	if err != nil || in == nil {
		return err
	}
	return fault.New(fault.Conflict, "%s %s of node %s is in network %s of tenant %s: routed networks of encapsulation vlan share the addresses outside",
		field, a, host, in.NetworkName, in.TenantName).WithField(field).WithDetails("network " + in.Key)
}

func removeBgp(c *Change, b *contivmodel.Bgp) error {
	master.RemoveBgp(c.Tx, b.Hostname)
	master.Drop(c.Tx, b)
	return nil
}
