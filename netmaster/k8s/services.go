package k8s

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// balancer notes services and who is behind them, for the tenants that have pods there.
type balancer struct {
	*Controller
	services   corelisters.ServiceLister
	namespaces corelisters.NamespaceLister
	slices     cache.Indexer

	mu      sync.Mutex
	tenants map[string]map[string]struct{} // for whom a service is noted, by namespace/name
}

// sliceIndex finds the slices of a service, by namespace/name.
const sliceIndex = "service"

// changesTogether is how long a service is left alone after a change: its pods come and go in
// groups, and each state of it is a transaction and news for every agent.
const changesTogether = 10 * time.Millisecond

// serviceWork keeps a record of every service with an address of its own, and of each of its backends.
func (c *Controller) serviceWork() *work {
	core, endpoints := c.informers.Core().V1(), c.informers.Discovery().V1().EndpointSlices().Informer()
	b := &balancer{Controller: c, services: core.Services().Lister(), namespaces: core.Namespaces().Lister(),
		slices: endpoints.GetIndexer(), tenants: map[string]map[string]struct{}{}}
	return &work{
		prepare: func() error {
			return endpoints.AddIndexers(cache.Indexers{sliceIndex: func(object any) ([]string, error) { return serviceOf(object), nil }})
		},
		kind: "service", workers: workers, delay: changesTogether, known: b.known, right: b.right,
		follows: []followed{
			{core.Services().Informer(), byName},
			{endpoints, serviceOf},
		},
	}
}

// serviceOf is the service that a slice is of.
func serviceOf(object any) []string {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok || slice.Labels[discoveryv1.LabelServiceName] == "" {
		return nil
	}
	return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}
}

// known finds the services that have records. It remembers for whom.
func (b *balancer) known(r ledger.Reader) (services []string, err error) {
	for _, prefix := range []string{mastercfg.K8sServicePrefix, mastercfg.K8sBackendPrefix} {
		r.Range(prefix, func(key string, _ []byte) bool {
			tenant, rest, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
			if parts := strings.SplitN(rest, "/", 3); len(parts) >= 2 {
				service := parts[0] + "/" + parts[1]
				b.note(service, tenant)
				services = append(services, service)
			}
			return true
		})
	}
	return slices.Compact(slices.Sorted(slices.Values(services))), nil
}

// note remembers that a service is noted for a tenant.
func (b *balancer) note(service, tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tenants[service] == nil {
		b.tenants[service] = map[string]struct{}{}
	}
	b.tenants[service][tenant] = struct{}{}
}

// noted are the tenants for whom a service is.
func (b *balancer) noted(service string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.tenants[service]))
}

// forget drops the tenants for whom a service is not noted any more.
func (b *balancer) forget(service string, gone []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, tenant := range gone {
		delete(b.tenants[service], tenant)
	}
	if len(b.tenants[service]) == 0 {
		delete(b.tenants, service)
	}
}

// right makes the records of a service what they should be.
func (b *balancer) right(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, err
	}
	service, err := b.services.Services(namespace).Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	var home string
	if err == nil {
		ns, err := b.namespaces.Get(namespace)
		if err != nil {
			return 0, err // it comes by another watch
		}
		home = homeOf(ns)
	}
	records := map[string][]byte{}
	var gone []string // keys
	err = b.ledger.View(func(r ledger.Reader) error {
		wanted, err := b.wanted(r, service, key, home)
		if err != nil {
			return err
		}
		for _, tenant := range b.noted(key) {
			gone = append(gone, surplus(r, wanted, tenant, namespace, name)...)
		}
		for key, value := range wanted {
			if before, there := r.Get(key); !there || !bytes.Equal(before, value) {
				records[key] = value
			}
		}
		return nil
	})
	if err != nil || len(records)+len(gone) == 0 {
		return 0, err
	}
	// Nobody else writes these keys, and one worker at a time those of a service.
	_, err = b.ledger.Update(ctx, func(tx *ledger.Tx) error {
		for _, key := range gone {
			tx.Delete(key)
		}
		var errs []error
		for key, value := range records {
			errs = append(errs, ledger.Write(tx, key, json.RawMessage(value)))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return 0, err
	}
	var left []string
	err = b.ledger.View(func(r ledger.Reader) error {
		for _, tenant := range b.noted(key) {
			if len(surplus(r, nil, tenant, namespace, name)) == 0 {
				left = append(left, tenant)
			}
		}
		return nil
	})
	b.forget(key, left)
	return 0, err
}

// surplus are the keys of a service's records for a tenant that are not wanted.
func surplus(r ledger.Reader, wanted map[string][]byte, tenant, namespace, name string) (keys []string) {
	add := func(key string, _ []byte) bool {
		if _, stays := wanted[key]; !stays {
			keys = append(keys, key)
		}
		return true
	}
	if key := mastercfg.K8sServiceKey(tenant, namespace, name); r.Revision(key) != 0 {
		add(key, nil)
	}
	r.Range(mastercfg.K8sBackendsOf(tenant, namespace, name), add)
	return keys
}

// wanted are the records of a service, by key; nil: there is none, or it is not ours.
func (b *balancer) wanted(r ledger.Reader, service *corev1.Service, key, home string) (map[string][]byte, error) {
	record, served := serviceRecord(service)
	if !served {
		return nil, nil
	}
	objects, err := b.slices.ByIndex(sliceIndex, key)
	if err != nil {
		return nil, err
	}
	records := map[string]any{}
	of := map[string][]behind{home: nil} // by tenant; those that are of none are in every one
	var everywhere []behind
	for _, one := range backends(record, objects) {
		tenant := ""
		if one.pod != "" {
			if pod, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey(one.Node, one.pod)); err == nil {
				tenant = pod.Tenant
			}
		}
		if tenant == "" {
			everywhere = append(everywhere, one)
		} else {
			of[tenant] = append(of[tenant], one)
		}
	}
	for tenant, list := range of {
		b.note(key, tenant)
		records[mastercfg.K8sServiceKey(tenant, record.Namespace, record.Name)] = record
		for _, one := range slices.Concat(list, everywhere) {
			records[mastercfg.K8sBackendKey(tenant, record.Namespace, record.Name, one.port, one.Address)] = one.K8sBackend
		}
	}
	return encoded(records)
}

func encoded(records map[string]any) (map[string][]byte, error) {
	all := make(map[string][]byte, len(records))
	for key, record := range records {
		value, err := json.Marshal(record)
		if err != nil {
			return nil, err
		}
		all[key] = value
	}
	return all, nil
}

// behind is a backend with the port of the service that it is behind.
type behind struct {
	mastercfg.K8sBackend
	port string
	pod  string // its UID; empty: none
}

// backends are those of slices, each address of a port once: pods move from slice to slice.
func backends(service mastercfg.K8sService, objects []any) (all []behind) {
	found := map[string]map[netip.AddrPort]behind{}
	for _, object := range objects {
		slice := object.(*discoveryv1.EndpointSlice) // the index has nothing else
		if !isServed(slice.Labels) || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, port := range slice.Ports {
			if port.Name == nil || port.Port == nil || *port.Port < 1 || *port.Port > 65535 ||
				!slices.ContainsFunc(service.Ports, func(p mastercfg.K8sServicePort) bool { return p.Name == *port.Name }) {
				continue
			}
			if found[*port.Name] == nil {
				found[*port.Name] = map[netip.AddrPort]behind{}
			}
			for _, e := range slice.Endpoints {
				one, ok := endpoint(e, *port.Name, uint16(*port.Port))
				if before, twice := found[*port.Name][one.Address]; ok && (!twice || before.Terminating && !one.Terminating) {
					found[*port.Name][one.Address] = one
				}
			}
		}
	}
	for _, port := range found {
		all = slices.AppendSeq(all, maps.Values(port))
	}
	return all
}
