package master

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// DeriveService makes the records of a service what its object says: the
// virtual address, and the providers its selectors match. A service that has
// an address keeps it unless its network or the address asked for is another.
func DeriveService(tx *objdb.Tx, s *contivmodel.ServiceLB) error {
	return deriveService(tx, s, (*space).reserveIPv4)
}

// restoreService is DeriveService for a record that was lost: the address asked
// for may still be marked for it.
func restoreService(tx *objdb.Tx, s *contivmodel.ServiceLB) error {
	return deriveService(tx, s, func(from *space, preferred string) (string, error) {
		addr, err := from.takeIPv4(preferred)
		return addr.String(), err
	})
}

// take gets a virtual address out of a network: the preferred one, or any.
type take func(from *space, preferred string) (string, error)

func deriveService(tx *objdb.Tx, s *contivmodel.ServiceLB, take take) error {
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
		if err := releaseVIP(tx, &old); err != nil {
			return err
		}
		if rec.IPAddress, err = takeVIP(tx, s, take); err != nil {
			return err
		}
	}
	if err := objdb.Write(tx, mastercfg.ServiceLBPrefix+rec.ID, rec); err != nil {
		return err
	}
	return deriveProviders(tx, &rec)
}

// RemoveService deletes the records of a service and gives its address back.
func RemoveService(tx *objdb.Tx, id string) error {
	rec, err := GetService(tx, id)
	if err != nil {
		return err
	}
	tx.Delete(mastercfg.ServiceLBPrefix + id)
	tx.Delete(mastercfg.ProviderPrefix + id)
	return releaseVIP(tx, &rec)
}

// GetService reads the record of a service by its id, S:T.
func GetService(r objdb.Reader, id string) (mastercfg.CfgServiceLBState, error) {
	return objdb.Read[mastercfg.CfgServiceLBState](r, mastercfg.ServiceLBPrefix+id)
}

// takeVIP takes a virtual address; it never comes from the range of a group.
func takeVIP(tx *objdb.Tx, s *contivmodel.ServiceLB, take take) (string, error) {
	from, err := openSpace(tx, mastercfg.NetworkID(s.TenantName, s.NetworkName), "")
	if err != nil {
		return "", err
	}
	vip, err := take(from, s.IPAddress)
	if err != nil {
		if e := fault.As(err); e != nil && s.IPAddress != "" {
			err = e.WithField("ipAddress")
		}
		return "", err
	}
	return vip, from.put()
}

// releaseVIP gives the address of a service back; one without has nothing to give.
func releaseVIP(tx *objdb.Tx, rec *mastercfg.CfgServiceLBState) error {
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
func serviceAt(r objdb.Reader, net *mastercfg.CfgNetworkState, addr netip.Addr) (id string, err error) {
	quoted := fmt.Appendf(nil, "%q", addr.String())
	r.Range(mastercfg.ServiceLBPrefix, func(key string, value []byte) bool {
		if !bytes.Contains(value, quoted) {
			return true
		}
		var rec mastercfg.CfgServiceLBState
		if rec, err = objdb.Read[mastercfg.CfgServiceLBState](r, key); err != nil {
			return false
		}
		if rec.Tenant == net.Tenant && rec.Network == net.NetworkName && rec.IPAddress == addr.String() {
			id = rec.ID
		}
		return id == ""
	})
	return id, err
}
