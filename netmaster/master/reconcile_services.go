package master

import (
	"maps"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// repairServices gives every service of the model its records, with the
// providers its selectors match, and only those. Records that cannot be read
// are left alone, together with the address they may hold.
func repairServices(tx *ledger.Tx) (findings, error) {
	var found findings
	known := map[string]bool{}
	err := each(tx, mastercfg.ModelKey("serviceLB", ""), func(_ string, s contivmodel.ServiceLB) error {
		id := mastercfg.ServiceID(s.TenantName, s.ServiceName)
		known[id] = true
		if _, err := GetService(tx, id); ignoreNotFound(err) != nil {
			return nil
		}
		before := providersOf(tx, id)
		changed, err := changes(tx, func() error { return DeriveService(tx, &s) }, mastercfg.ServiceLBPrefix+id)
		if changed || !maps.Equal(before, providersOf(tx, id)) {
			found = append(found, "records of service "+id+" made anew")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	tx.Range(mastercfg.ServiceLBPrefix, func(key string, _ []byte) bool {
		id := key[len(mastercfg.ServiceLBPrefix):]
		if _, err := GetService(tx, id); err == nil && !known[id] {
			RemoveService(tx, id)
			found = append(found, "records of service "+id+", which is gone, deleted")
		}
		return true
	})
	// A key without an address is the list an older netmaster wrote.
	tx.Range(mastercfg.ProviderPrefix, func(key string, _ []byte) bool {
		if id, _, single := strings.Cut(key[len(mastercfg.ProviderPrefix):], "/"); !known[id] || !single {
			found = append(found, "providers of service "+id+", which is gone or lists them one by one, deleted")
			tx.Delete(key)
		}
		return true
	})
	return found, nil
}

// providersOf are the records of the addresses behind a service.
func providersOf(r ledger.Reader, id string) map[string]string {
	all := map[string]string{}
	r.Range(mastercfg.ProviderKey(id, ""), func(key string, value []byte) bool {
		all[key] = string(value)
		return true
	})
	return all
}

// changes tells whether a repair changes any of the keys.
func changes(tx *ledger.Tx, repair func() error, keys ...string) (bool, error) {
	before := make([]string, len(keys))
	for i, key := range keys {
		value, _ := tx.Get(key)
		before[i] = string(value)
	}
	if err := repair(); err != nil {
		return false, err
	}
	for i, key := range keys {
		if value, _ := tx.Get(key); string(value) != before[i] {
			return true, nil
		}
	}
	return false, nil
}

// ignoreCorrupt lets values that cannot be read be left alone.
func ignoreCorrupt(err error) error {
	if fault.Is(err, fault.Internal) {
		return nil
	}
	return err
}
