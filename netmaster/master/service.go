package master

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// DeriveService makes the records of a service what its object says: the
// virtual address, and the providers its selectors match. A service that has
// an address keeps it unless its network or the address asked for is another.
func DeriveService(tx *ledger.Tx, s *contivmodel.ServiceLB) error {
	return newServing(tx, (*space).reserveIPv4).derive(s)
}

// serving makes the records of one or many services.
type serving struct {
	tx         *ledger.Tx
	take       func(from *space, preferred string) (string, error) // gets an address out of a network
	containers map[string][]mastercfg.CfgEndpointState             // by tenant, each read once
}

func newServing(tx *ledger.Tx, take func(*space, string) (string, error)) *serving {
	return &serving{tx, take, map[string][]mastercfg.CfgEndpointState{}}
}

func (d *serving) derive(s *contivmodel.ServiceLB) error {
	selectors, err := parseSelectors(s.Selectors)
	if err != nil {
		return err
	}
	rec := mastercfg.CfgServiceLBState{
		ID: mastercfg.ServiceID(s.TenantName, s.ServiceName), ServiceName: s.ServiceName, Tenant: s.TenantName,
		Network: s.NetworkName, Ports: s.Ports, Selectors: selectors,
	}
	old, err := GetService(d.tx, rec.ID)
	if ignoreNotFound(err) != nil {
		return err
	}
	if old.IPAddress != "" && old.Network == s.NetworkName && (s.IPAddress == "" || s.IPAddress == old.IPAddress) {
		rec.IPAddress = old.IPAddress
	} else {
		if err := releaseVIP(d.tx, &old); err != nil {
			return err
		}
		if rec.IPAddress, err = d.takeVIP(s); err != nil {
			return err
		}
	}
	if err := ledger.Write(d.tx, mastercfg.ServiceLBPrefix+rec.ID, rec); err != nil {
		return err
	}
	return d.deriveProviders(&rec)
}

// takeVIP takes a virtual address; it never comes from the range of a group.
func (d *serving) takeVIP(s *contivmodel.ServiceLB) (string, error) {
	from, err := openSpace(d.tx, mastercfg.NetworkID(s.TenantName, s.NetworkName), "")
	if err != nil {
		return "", err
	}
	vip, err := d.take(from, s.IPAddress)
	if e := fault.As(err); e != nil && s.IPAddress != "" {
		return "", e.WithField("ipAddress")
	}
	if err != nil {
		return "", err
	}
	return vip, from.put()
}

// deriveProviders makes the list of a service anew.
func (d *serving) deriveProviders(rec *mastercfg.CfgServiceLBState) error {
	all, read := d.containers[rec.Tenant]
	if !read {
		var err error
		if all, err = Containers(d.tx, rec.Tenant); err != nil {
			return err
		}
		d.containers[rec.Tenant] = all
	}
	list := mastercfg.SvcProvider{ID: rec.ID, ServiceName: rec.ID, Providers: []string{}}
	for _, ep := range Selected(rec, all) {
		list.Providers = append(list.Providers, ep.IPAddress)
	}
	slices.Sort(list.Providers)
	return ledger.Write(d.tx, mastercfg.ProviderPrefix+rec.ID, list)
}

// RemoveService deletes the records of a service and gives its address back.
func RemoveService(tx *ledger.Tx, id string) error {
	rec, err := GetService(tx, id)
	if err != nil {
		return err
	}
	tx.Delete(mastercfg.ServiceLBPrefix + id)
	tx.Delete(mastercfg.ProviderPrefix + id)
	return releaseVIP(tx, &rec)
}

// GetService reads the record of a service by its id, S:T.
func GetService(r ledger.Reader, id string) (mastercfg.CfgServiceLBState, error) {
	return ledger.Read[mastercfg.CfgServiceLBState](r, mastercfg.ServiceLBPrefix+id)
}

// releaseVIP gives the address of a service back; one without has nothing to give.
func releaseVIP(tx *ledger.Tx, rec *mastercfg.CfgServiceLBState) error {
	if rec.IPAddress == "" {
		return nil
	}
	from, err := openSpace(tx, mastercfg.NetworkID(rec.Tenant, rec.Network), "")
	if err != nil {
		return ignoreNotFound(err)
	}
	from.release(rec.IPAddress)
	return from.put()
}

// serviceAt finds the service of a network that has an address, "" if none.
func serviceAt(r ledger.Reader, networkID string, addr netip.Addr) (id string) {
	found(r, vipTerm+networkID+"/"+addr.String(), func(key string) bool {
		id = key[len(mastercfg.ServiceLBPrefix):]
		return false
	})
	return id
}
