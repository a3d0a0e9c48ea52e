package master

import (
	"fmt"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// repairBound gives a tenant a bound of twice as many endpoints as it has, if it has more than it may have while no operator has
// said how many: so many it has from a netmaster that had no bound. Without, it would get none any more, also where pods are
// made in the place of others.
func repairBound(p *pass, key string) (findings, error) {
	t, ok := readSound[contivmodel.Tenant](p, key)
	if !ok || t.MaxEndpoints != 0 || t.TenantName == mastercfg.DefaultTenant {
		return nil, nil
	}
	has := EndpointsOfTenant(p, t.TenantName)
	if has <= mastercfg.EndpointsOfTenant {
		return nil, nil
	}
	t.MaxEndpoints = 2 * has
	return findings{fmt.Sprintf("tenant %s has %d endpoints, more than %d: it may have %d from now on", t.TenantName, has, mastercfg.EndpointsOfTenant, t.MaxEndpoints)}, Put(p.Tx, &t)
}
