package master

import (
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// DeriveService derives the records of a service from its object: the virtual address, and the providers that
// its selectors match. A service keeps its address unless its network or the requested address changes.
func DeriveService(tx *ledger.Tx, s *contivmodel.ServiceLB) error {
	return deriveService(tx, s, func(tenant string) ([]mastercfg.CfgEndpointState, error) { return Containers(tx, tenant) })
}

// deriveService is DeriveService with a function that returns the containers of a tenant.
func deriveService(tx *ledger.Tx, s *contivmodel.ServiceLB, containers func(tenant string) ([]mastercfg.CfgEndpointState, error)) error {
	selectors, err := parseSelectors(s.Selectors)
	if err != nil {
		return err
	}
	rec := mastercfg.CfgServiceLBState{
		ID: mastercfg.ServiceID(s.TenantName, s.ServiceName), ServiceName: s.ServiceName, Tenant: s.TenantName,
		Network: s.NetworkName, Ports: s.Ports, Selectors: selectors, ExternalIPs: s.ExternalIPs, NodePorts: s.NodePorts,
		Affinity: s.Affinity,
	}
	if err := checkTaken(tx, s, &rec); err != nil {
		return err
	}
	old, err := GetService(tx, rec.ID)
	if ignoreNotFound(err) != nil {
		return err
	}
	if rec.IPAddress, rec.IPv6Address, err = vips(tx, s, &old); err != nil {
		return err
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

// automatic requests any IPv6 address.
const automatic = "auto"

// vips allocates the virtual addresses of a service, which keeps its present ones if possible; they never are
// in the range of a group. A network with IPv4 gives an IPv4 address, and an IPv6 one if it is requested; one
// without IPv4 gives an IPv6 address.
func vips(tx *ledger.Tx, s *contivmodel.ServiceLB, old *mastercfg.CfgServiceLBState) (four, six string, err error) {
	from, err := openSpace(tx, mastercfg.NetworkID(s.TenantName, s.NetworkName), "")
	if err != nil {
		return "", "", err
	}
	want6 := s.IPv6Address
	only6 := resources.OnlyIPv6(&from.net) && s.IPAddress == ""
	if only6 && want6 == "" {
		want6 = automatic
	}
	stays := func(has, asked string) bool {
		return has != "" && old.Network == s.NetworkName && (asked == "" || asked == automatic || asked == has)
	}
	// The address that it gives up is free: a requested address may be the same.
	if old.ID != "" {
		kept := *old
		if only6 || !stays(old.IPAddress, s.IPAddress) {
			kept.IPAddress = ""
		}
		if want6 == "" || !stays(old.IPv6Address, want6) {
			kept.IPv6Address = ""
		}
		old = &kept
		if err := ledger.Write(tx, mastercfg.ServiceLBPrefix+old.ID, kept); err != nil {
			return "", "", err
		}
	}
	if four = old.IPAddress; four == "" && !only6 {
		vip, err := from.reserveIPv4(s.IPAddress)
		if err != nil {
			return "", "", ofField(err, "ipAddress", s.IPAddress)
		}
		four = vip.String()
	}
	if six = old.IPv6Address; six == "" && want6 != "" {
		vip, err := from.reserveIPv6(strings.TrimPrefix(want6, automatic))
		if err != nil {
			return "", "", ofField(err, "ipv6Address", s.IPv6Address)
		}
		six = vip.String()
	}
	return four, six, nil
}

// ofField adds the field that requested an unavailable address to the error; "" means that none was requested.
func ofField(err error, field, asked string) error {
	if e := fault.As(err); e != nil && asked != "" {
		return e.WithField(field)
	}
	return err
}

// deriveProviders sets the addresses behind a service to those of the containers that it selects.
func deriveProviders(tx *ledger.Tx, rec *mastercfg.CfgServiceLBState, all []mastercfg.CfgEndpointState) error {
	running := map[string]bool{}
	for _, ep := range all {
		for _, a := range providing(rec, &ep) {
			running[mastercfg.ProviderKey(rec.ID, a)] = true
			if err := listProvider(tx, rec.ID, a, selectedBy(rec.Selectors, &ep), true); err != nil {
				return err
			}
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

// RemoveService deletes the records of a service, which frees its address.
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
