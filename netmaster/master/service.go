package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// DeriveService makes the records of a service what its object says: the
// virtual address, and the providers its selectors match. A service that has
// an address keeps it unless its network or the address asked for is another.
func DeriveService(tx *ledger.Tx, s *contivmodel.ServiceLB) error {
	return deriveService(tx, s, func(tenant string) ([]mastercfg.CfgEndpointState, error) { return Containers(tx, tenant) })
}

// deriveService is told the containers of a tenant.
func deriveService(tx *ledger.Tx, s *contivmodel.ServiceLB, containers func(tenant string) ([]mastercfg.CfgEndpointState, error)) error {
	selectors, err := parseSelectors(s.Selectors)
	if err != nil {
		return err
	}
	rec := mastercfg.CfgServiceLBState{
		ID: mastercfg.ServiceID(s.TenantName, s.ServiceName), ServiceName: s.ServiceName, Tenant: s.TenantName,
		Network: s.NetworkName, Ports: s.Ports, Selectors: selectors,
	}
	old, err := GetService(tx, rec.ID)
	if ignoreNotFound(err) != nil {
		return err
	}
	if old.IPAddress != "" && old.Network == s.NetworkName && (s.IPAddress == "" || s.IPAddress == old.IPAddress) {
		rec.IPAddress = old.IPAddress
	} else {
		// What it had is free: an address asked for may be in it.
		tx.Delete(mastercfg.ServiceLBPrefix + rec.ID)
		if rec.IPAddress, err = freeVIP(tx, s); err != nil {
			return err
		}
	}
	if err := ledger.Write(tx, mastercfg.ServiceLBPrefix+rec.ID, rec); err != nil {
		return err
	}
	all, err := containers(rec.Tenant)
	if err != nil {
		return err
	}
	return deriveProviders(tx, &rec, all)
}

// freeVIP finds a virtual address; it never comes from the range of a group.
func freeVIP(tx *ledger.Tx, s *contivmodel.ServiceLB) (string, error) {
	from, err := openSpace(tx, mastercfg.NetworkID(s.TenantName, s.NetworkName), "")
	if err != nil {
		return "", err
	}
	vip, err := from.reserveIPv4(s.IPAddress)
	if e := fault.As(err); e != nil && s.IPAddress != "" {
		return "", e.WithField("ipAddress")
	}
	return vip.String(), err
}

// deriveProviders makes the addresses behind a service those of the containers it selects.
func deriveProviders(tx *ledger.Tx, rec *mastercfg.CfgServiceLBState, all []mastercfg.CfgEndpointState) error {
	running := map[string]bool{}
	for _, ep := range all {
		running[mastercfg.ProviderKey(rec.ID, ep.IPAddress)] = true
		if err := listProvider(tx, rec.ID, ep.IPAddress, selectedBy(rec.Selectors, &ep), true); err != nil {
			return err
		}
	}
	tx.Range(mastercfg.ProviderKey(rec.ID, ""), func(key string, _ []byte) bool {
		if !running[key] {
			tx.Delete(key)
		}
		return true
	})
	return nil
}

// RemoveService deletes the records of a service. Its address is free with that.
func RemoveService(tx *ledger.Tx, id string) {
	tx.Delete(mastercfg.ServiceLBPrefix + id)
	tx.Range(mastercfg.ProviderKey(id, ""), func(key string, _ []byte) bool {
		tx.Delete(key)
		return true
	})
}

// GetService reads the record of a service by its id, S:T.
func GetService(r ledger.Reader, id string) (mastercfg.CfgServiceLBState, error) {
	s, err := ledger.Read[mastercfg.CfgServiceLBState](r, mastercfg.ServiceLBPrefix+id)
	return s, byName("service", id, err)
}
