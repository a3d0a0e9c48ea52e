package master

import (
	"fmt"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// repairBound gives a tenant a bound of twice its number of endpoints, if it exceeds the default bound and no
// operator has set one: its endpoints are from a netmaster without bounds. Otherwise it would get no new ones,
// not even where pods are replaced.
func repairBound(p *pass, key string) (findings, error) {
	t, ok := readSound[contivmodel.Tenant](p, key)
	if !ok || t.MaxEndpoints != 0 || t.TenantName == mastercfg.DefaultTenant {
		return nil, nil
	}
	has := endpointsOfTenant(p, t.TenantName)
	if has <= mastercfg.EndpointsOfTenant {
		return nil, nil
	}
	t.MaxEndpoints = 2 * has
	return findings{fmt.Sprintf("tenant %s has %d endpoints, more than %d: it may have %d from now on", t.TenantName, has, mastercfg.EndpointsOfTenant, t.MaxEndpoints)}, Put(p.Tx, &t)
}
