package objects

import (
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/jsonstream"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

func createTenant(c *Change, t *contivmodel.Tenant) error {
	if t.TenantName == "" {
		return fault.New(fault.Invalid, "Invalid tenant name").WithField("tenantName").
			WithExplanation("tenantName is empty: want the name of a tenant, such as blue")
	}
	if err := master.DeriveVRF(c.Tx, t); err != nil {
		return err
	}
	return master.Put(c.Tx, t)
}

// updateTenant changes the limits of a tenant, and nothing else. Unchanged limits are accepted if the request
// has a condition on the state, and refused if it creates the tenant again.
func updateTenant(c *Change, stored, wanted *contivmodel.Tenant) error {
	bounds := wanted.Bounds()
	if c.Blind && bounds == (contivmodel.TenantBounds{}) && bounds != stored.Bounds() { // by a client that creates it again, or does not know limits
		return fault.New(fault.Immutable, "Cant change tenant parameters after its created").
			WithExplanation("tenant %s has bounds, and stays as it is: netctl tenant update takes them away, or a request with If-Match", stored.TenantName)
	}
	if bounds == stored.Bounds() && c.Blind || wanted.DefaultNetwork != stored.DefaultNetwork {
		return immutable(stored, "Cant change tenant parameters after its created")
	}
	stored.SetBounds(bounds)
	if err := master.DerivePolicyMode(c.Tx, stored); err != nil {
		return err
	}
	return master.Put(c.Tx, stored)
}

func removeTenant(c *Change, t *contivmodel.Tenant) error {
	contracts := belowTenant(c, "extContractsGroup", t.TenantName)
	for _, held := range []struct {
		links contivmodel.LinkSet
		text  string
	}{
		{t.LinkSets.AppProfiles, "cannot delete %s, has %d app profiles"},
		{t.LinkSets.EndpointGroups, "cannot delete %s has %d endpoint groups"},
		{t.LinkSets.Policies, "cannot delete %s has %d policies"},
		{t.LinkSets.NetProfiles, "Cannot delete %s has %d netprofiles"},
		{t.LinkSets.Networks, "cannot delete %s has %d networks"},
		{t.LinkSets.Servicelbs, "cannot delete %s has %d services"},
		{contracts, "cannot delete %s has %d external contract groups"},
	} {
		if n := len(held.links); n > 0 {
			return fault.New(fault.InUse, held.text, t.TenantName, n).WithDetails(names(held.links)...)
		}
	}
	c.Delete(mastercfg.VRFPrefix + t.TenantName)
	master.Drop(c.Tx, t)
	return access.UnbindTenant(c.Tx, t.TenantName)
}

// belowTenant returns the objects of a type that belong to a tenant but are not linked to it.
func belowTenant(r ledger.Reader, objType, tenant string) contivmodel.LinkSet {
	found := contivmodel.LinkSet{}
	prefix := mastercfg.ModelKey(objType, "")
	r.Range(prefix+tenant+":", func(key string, _ []byte) bool {
		found[key[len(prefix):]] = contivmodel.Link{Type: objType, Key: key[len(prefix):]}
		return true
	})
	return found
}

func inspectTenant(r *View, t *contivmodel.Tenant) (any, error) {
	oper := contivmodel.TenantOper{
		TotalNetworks: len(t.LinkSets.Networks), TotalEPGs: len(t.LinkSets.EndpointGroups),
		TotalNetprofiles: len(t.LinkSets.NetProfiles), TotalPolicies: len(t.LinkSets.Policies),
		TotalAppProfiles: len(t.LinkSets.AppProfiles), TotalServicelbs: len(t.LinkSets.Servicelbs),
	}
	for _, key := range keys(t.LinkSets.Networks) {
		tenant, name, _ := strings.Cut(key, ":")
		oper.TotalEndpoints += len(master.EndpointKeys(r, mastercfg.NetworkID(tenant, name)))
	}
	return inspection(contivmodel.TenantInspect{Config: *t}, jsonstream.Object{Of: oper, Late: map[string]any{
		"networks":       networksOf(r, t),
		"endpointGroups": groupsOf(r, t),
	}}), nil
}

// networksOf returns the run-time views of a tenant's networks.
func networksOf(r ledger.Reader, t *contivmodel.Tenant) jsonstream.Array {
	return func(item func(any) error) error {
		for _, key := range keys(t.LinkSets.Networks) {
			n, err := networkOper(r, key)
			if err == nil {
				err = item(n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// groupsOf returns the run-time views of a tenant's groups,
// without the fields that only the inspection of a group has.
func groupsOf(r ledger.Reader, t *contivmodel.Tenant) jsonstream.Array {
	return func(item func(any) error) error {
		for _, key := range keys(t.LinkSets.EndpointGroups) {
			g, err := groupOper(r, key)
			if err != nil {
				return err
			}
			g.AllocatedIPAddresses, g.AvailableIPAddresses, g.GroupTag = "", "", ""
			if err := item(g.late(r)); err != nil {
				return err
			}
		}
		return nil
	}
}
