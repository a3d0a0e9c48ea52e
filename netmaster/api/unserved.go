package api

import (
	"encoding/json"
	"slices"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// servicesOf returns the status of services in the tenants that the caller sees; nil if there are none.
func servicesOf(r ledger.Reader, sees func(tenant string) bool) (*contivmodel.ServicesStatus, error) {
	s := &contivmodel.ServicesStatus{Unserved: []string{}}
	err := ledger.ReadEach(r, mastercfg.ServiceLBPrefix, func(_ string, service mastercfg.CfgServiceLBState) error {
		if !sees(service.Tenant) {
			return nil
		}
		s.Count++
		if !isServed(r, service.ID) {
			s.Unserved = append(s.Unserved, service.Tenant+"/"+service.ServiceName)
		}
		return nil
	})
	if s.Count == 0 {
		return nil, err
	}
	slices.Sort(s.Unserved)
	return s, err
}

// isServed reports whether a service has a provider that does not drain.
func isServed(r ledger.Reader, service string) (found bool) {
	r.Range(mastercfg.ProviderKey(service, ""), func(_ string, value []byte) bool {
		var p mastercfg.SvcProvider
		found = json.Unmarshal(value, &p) == nil && !p.Draining
		return !found
	})
	return found
}
