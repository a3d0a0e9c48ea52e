package master

import (
	"maps"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// repairService writes the records of a service of the model, with the providers that its selectors match, and deletes
// records without a service. Records that cannot be read are left unchanged, together with the address they may have.
func repairService(p *pass, key string) (findings, error) {
	if _, ok := modelBelow(key, "serviceLB"); ok {
		return rederive(p, key)
	}
	if id, ok := strings.CutPrefix(key, mastercfg.ServiceLBPrefix); ok {
		if _, readable := readSound[mastercfg.CfgServiceLBState](p, key); !readable || serviceExists(p, id) {
			return nil, nil
		}
		RemoveService(p.Tx, id)
		return findings{"records of service " + id + ", which is gone, deleted"}, nil
	}
	// A key without an address is the list an older netmaster wrote.
	id, _, single := strings.Cut(key[len(mastercfg.ProviderPrefix):], "/")
	if single && serviceExists(p, id) {
		return nil, nil
	}
	p.Delete(key)
	return findings{"providers of service " + id + ", which is gone or lists them one by one, deleted"}, nil
}

// serviceExists reports whether the model has the service of a state id, S:T.
func serviceExists(r ledger.Reader, id string) bool {
	service, tenant, _ := strings.Cut(id, ":")
	return Exists(r, "serviceLB", tenant+":"+service)
}

func rederive(p *pass, key string) (findings, error) {
	s, ok := readSound[contivmodel.ServiceLB](p, key)
	id := mastercfg.ServiceID(s.TenantName, s.ServiceName)
	if _, err := GetService(p, id); !ok || ignoreNotFound(err) != nil {
		return nil, nil
	}
	before := providersOf(p, id)
	changed, err := changes(p, func() error { return deriveService(p.Tx, &s, p.containersOf) }, mastercfg.ServiceLBPrefix+id)
	if err != nil || !changed && maps.Equal(before, providersOf(p, id)) {
		return nil, err
	}
	return findings{"records of service " + id + " made anew"}, nil
}

// containersOf returns the containers of a tenant, read once: no repair of a service changes them.
func (p *pass) containersOf(tenant string) ([]mastercfg.CfgEndpointState, error) {
	if all, read := p.containers[tenant]; read {
		return all, nil
	}
	all, err := Containers(p, tenant)
	p.containers[tenant] = all
	return all, err
}

// providersOf returns the records of the addresses behind a service.
func providersOf(r ledger.Reader, id string) map[string]string {
	all := map[string]string{}
	r.Range(mastercfg.ProviderKey(id, ""), func(key string, value []byte) bool {
		all[key] = string(value)
		return true
	})
	return all
}

// changes reports whether a repair changes any of the keys.
func changes(tx ledger.Reader, repair func() error, keys ...string) (bool, error) {
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

// ignoreCorrupt drops the error about a value that cannot be read.
func ignoreCorrupt(err error) error {
	if fault.Is(err, fault.Internal) {
		return nil
	}
	return err
}
