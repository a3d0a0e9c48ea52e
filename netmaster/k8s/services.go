package k8s

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// balancer writes the records of services and backends, for the tenants that have pods there.
type balancer struct {
	*Controller
	services   corelisters.ServiceLister
	namespaces corelisters.NamespaceLister
	pods       cache.Indexer
	nodes      corelisters.NodeLister
	slices     cache.Indexer
	addressed  cache.Indexer             // services by address
	ranges     cache.SharedIndexInformer // ServiceCIDRs
	grace      time.Duration             // for slices that do not match

	mu        sync.Mutex
	tenants   map[string]map[string]struct{}      // tenants with a record of a service, by namespace/name
	unreached map[string]map[netip.Addr]time.Time // since when backends of services are not reached, by namespace/name
	unmatched map[string]unmatchedSince           // services with backends in unserved slices, by namespace/name
	judged    map[string]int64                    // the revision of its namespace's tenant for which a service was reconciled, by namespace/name
	former    map[string]formerNames              // former names of services' ports, by namespace/name
}

// sliceIndex indexes the slices of a service, by namespace/name.
const sliceIndex = "service"

// changesTogether: the first change of a service is handled at once; changes within this time after it are handled
// together. Pods are created and deleted in groups, and each state is a transaction and an event for every agent.
const changesTogether = 10 * time.Millisecond

// serviceReconcilers returns the reconcilers of services with an address of their own, and of their backends.
func (c *Controller) serviceReconcilers() []*reconciler {
	core, endpoints := c.informers.Core().V1(), c.informers.Discovery().V1().EndpointSlices().Informer()
	b := &balancer{
		Controller: c, services: core.Services().Lister(), namespaces: core.Namespaces().Lister(),
		pods: core.Pods().Informer().GetIndexer(), nodes: core.Nodes().Lister(), slices: endpoints.GetIndexer(),
		addressed: core.Services().Informer().GetIndexer(),
		ranges:    c.informers.Networking().V1().ServiceCIDRs().Informer(), grace: cmp.Or(c.cfg.UnmatchedGrace, unmatchedGrace),
		tenants: map[string]map[string]struct{}{}, unreached: map[string]map[netip.Addr]time.Time{},
		unmatched: map[string]unmatchedSince{}, judged: map[string]int64{}, former: map[string]formerNames{},
	}
	services := &reconciler{
		prepare: func() error {
			if err := core.Services().Informer().AddIndexers(cache.Indexers{addressIndex: addressesOfService}); err != nil {
				return err
			}
			if err := core.Pods().Informer().AddIndexers(cache.Indexers{uidIndex: uidOfObject}); err != nil {
				return err
			}
			return endpoints.AddIndexers(cache.Indexers{sliceIndex: func(object any) ([]string, error) { return serviceOf(object), nil }})
		},
		kind: "service", workers: manyWorkers, rest: changesTogether, known: b.known, reconcile: b.reconcile,
		follows: []followed{
			{informer: core.Services().Informer(), concerns: byName},
			{informer: core.Services().Informer(), concerns: b.contenders, same: b.sameClaims},
			{informer: endpoints, concerns: serviceOf},
			{informer: core.Namespaces().Informer(), concerns: within(core.Services().Informer())},
			{informer: core.Nodes().Informer(), concerns: b.servicesAtAddressesOf, same: sameAddresses},
			{informer: core.Pods().Informer(), concerns: b.publishing, same: bothRun},
		},
	}
	return []*reconciler{services, b.tenantReconciler(services)}
}

// serviceOf returns the service of a slice.
func serviceOf(object any) []string {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok || slice.Labels[discoveryv1.LabelServiceName] == "" {
		return nil
	}
	return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}
}

// publishing returns the services that still have a finished pod as backend, because they include pods that are
// not ready: Kubernetes changes a slice when the readiness of a pod changes, but not when the pod finishes.
func (b *balancer) publishing(object any) (services []string) {
	pod, ok := object.(*corev1.Pod)
	if !ok || !isFinished(pod) {
		return nil
	}
	all, err := b.services.Services(pod.Namespace).List(labels.Everything())
	if err != nil { // a cache never fails
		return nil
	}
	for _, s := range all {
		if s.Spec.PublishNotReadyAddresses && len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			services = append(services, s.Namespace+"/"+s.Name)
		}
	}
	return services
}

// bothRun reports whether a pod has not finished by now.
func bothRun(_, now any) bool {
	pod, _ := now.(*corev1.Pod)
	return pod != nil && !isFinished(pod)
}

// known returns the services with records, and remembers their tenants.
func (b *balancer) known(r ledger.Reader) (services []string, err error) {
	for _, prefix := range []string{mastercfg.K8sServicePrefix, mastercfg.K8sBackendPrefix} {
		r.Range(prefix, func(key string, _ []byte) bool {
			tenant, rest, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
			if parts := strings.SplitN(rest, "/", 3); len(parts) >= 2 {
				service := parts[0] + "/" + parts[1]
				b.noteTenant(service, tenant)
				services = append(services, service)
			}
			return true
		})
	}
	return slices.Compact(slices.Sorted(slices.Values(services))), nil
}

// noteTenant records that a service has a record in a tenant.
func (b *balancer) noteTenant(service, tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tenants[service] == nil {
		b.tenants[service] = map[string]struct{}{}
	}
	b.tenants[service][tenant] = struct{}{}
}

// tenantsOf lists the tenants in which a service has a record.
func (b *balancer) tenantsOf(service string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.tenants[service]))
}

// forget drops tenants without a record of a service.
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

// reconcile updates the records of a service.
func (b *balancer) reconcile(ctx context.Context, key string) (time.Duration, error) {
	service, namespace, err := b.lookUp(key)
	if err != nil {
		return 0, err
	}
	should, changed, gone, err := b.compare(service, key, namespace)
	if err != nil {
		return 0, err
	}
	b.reportEvents(service, key, should)
	if len(changed)+len(gone) == 0 {
		return should.again, nil
	}
	if err := b.write(ctx, changed, gone); err != nil {
		return 0, err
	}
	return should.again, b.forgetTenants(key)
}

// lookUp returns a service and its namespace; nil: no service has this key.
func (b *balancer) lookUp(key string) (*corev1.Service, *corev1.Namespace, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, nil, err
	}
	service, err := b.services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	within, err := b.namespaces.Get(namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("namespace %s: %w", namespace, err) // it arrives by another watch, and this is retried
	}
	return service, within, nil
}

// compare returns what a service should have, the records that differ from it, and the keys of surplus records.
func (b *balancer) compare(service *corev1.Service, key string, namespace *corev1.Namespace) (should desired, changed map[string][]byte, gone []string, err error) {
	changed = map[string][]byte{}
	err = b.ledger.View(func(r ledger.Reader) (err error) {
		if should, err = b.desired(r, service, key, namespace); err != nil {
			return err
		}
		for _, tenant := range b.tenantsOf(key) {
			gone = append(gone, surplus(r, should.records, tenant, key)...)
		}
		for key, value := range should.records {
			if before, there := r.Get(key); !there || !bytes.Equal(before, value) {
				changed[key] = value
			}
		}
		return nil
	})
	return should, changed, gone, err
}

// write writes and deletes records of a service. Nothing else writes
// these keys, and only one worker at a time those of a service.
func (b *balancer) write(ctx context.Context, changed map[string][]byte, gone []string) error {
	_, err := b.ledger.Update(ctx, func(tx *ledger.Tx) error {
		for _, key := range gone {
			tx.Delete(key)
		}
		var errs []error
		for key, value := range changed {
			errs = append(errs, ledger.Write(tx, key, json.RawMessage(value)))
		}
		return errors.Join(errs...)
	})
	return err
}

// forgetTenants drops the tenants that have no record of a service any more.
func (b *balancer) forgetTenants(key string) error {
	var without []string
	err := b.ledger.View(func(r ledger.Reader) error {
		for _, tenant := range b.tenantsOf(key) {
			if len(surplus(r, nil, tenant, key)) == 0 {
				without = append(without, tenant)
			}
		}
		return nil
	})
	b.forget(key, without)
	return err
}

// surplus returns the keys of a service's records for a tenant that are not wanted.
func surplus(r ledger.Reader, wanted map[string][]byte, tenant, service string) (keys []string) {
	namespace, name, _ := strings.Cut(service, "/")
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

// desired is what a service should have.
type desired struct {
	records  map[string][]byte   // by key
	problems map[string][]string // messages about parts that are not served, by the event's reason
	notes    map[string]string   // other messages, by the event's reason; empty: none
	again    time.Duration       // when it is reconciled again; 0: only after a change
}

// problem adds messages about parts that are not served, by the reason of their event.
func (d *desired) problem(reason string, texts ...string) {
	d.problems[reason] = append(d.problems[reason], texts...)
}

// lookAgain schedules the next reconciliation, unless an earlier one is scheduled; 0: none.
func (d *desired) lookAgain(after time.Duration) { d.again = sooner(d.again, after) }

// desired returns what a service should have; nothing if it does not exist, or is not ours.
func (b *balancer) desired(r ledger.Reader, service *corev1.Service, key string, namespace *corev1.Namespace) (d desired, err error) {
	record, served := b.recordOf(service)
	if !served {
		b.forgetTenantRevision(key)
		b.forgetUnmatched(key)
		b.unreachedBackends(key, nil, time.Now())
		b.forgetNames(key)
		return d, nil
	}
	b.noteTenantRevision(key, tenantRevision(r, namespace))
	home, err := serviceTenant(r, namespace)
	if err != nil {
		return d, err
	}
	objects, err := b.slices.ByIndex(sliceIndex, key)
	if err != nil {
		return d, err
	}
	now := time.Now()
	former := b.formerNamesOf(r, key, record, now)
	objects, behind := former.renameSlices(objects)
	if behind {
		d.lookAgain(former.until.Sub(now))
	}
	list, beyond := backends(record, objects, maxBackends)
	all, err := b.byTenant(r, service.Namespace, home, list)
	if err != nil {
		return d, err
	}
	d.problems = map[string][]string{
		portNotServed: unserved(record), serviceTooLarge: tooMany(service, record),
		addressNotServed: invalidAddresses(objects), notShared: share(&record, service, namespace, b.cfg.Choice)}
	mismatched, mismatch := unmatched(service, record, objects)
	unserved, again := b.unservedBackends(key, all.nowhere, mismatched, mismatch, now)
	d.problem(backendNotServed, unserved...)
	d.lookAgain(again)
	if b.mayBecomeVirtual(list) {
		d.lookAgain(externalAgain)
	}
	if len(record.External)+len(record.LoadBalancers) > 0 {
		d.lookAgain(externalAgain)
		refused, err := b.admit(r, &record, slices.Collect(maps.Keys(all.of)))
		if err != nil {
			return d, err
		}
		d.problem(addressNotServed, slices.Concat(b.excessAddresses(service), refused)...)
	}
	d.notes = map[string]string{
		externalIPUsed: externalUsed(record), externalIPsOff: b.disabledAddresses(service),
		spansTenants: all.otherTenants(home), affinityTooLong: shortenedAffinity(record),
	}
	if beyond > 0 {
		d.problem(serviceTooLarge, fmt.Sprintf("it has backends at more than %d addresses and ports, and others are not noted; use several services", maxBackends))
	}
	err = b.recordsFor(r, key, record, all, all.tenantForHosts(home), &d)
	return d, err
}

// recordsFor adds the records that a service should have in
// each tenant. hosts is the tenant whose backends serve hosts.
func (b *balancer) recordsFor(r ledger.Reader, key string, record mastercfg.K8sService, all tenantBackends, hosts string, d *desired) (err error) {
	records := map[string]any{}
	for tenant := range all.of {
		serving := all.ofTenant(tenant)
		d.problem(serviceTooLarge, tooLarge(serving, pipeline.ProvidersOf(record.Places()))...)
		if record.Shared && tenant != hosts && len(serving) == 0 {
			continue // its pods reach the backends of the other tenant
		}
		b.noteTenant(key, tenant)
		enter(records, record, tenant, tenant != hosts, serving)
	}
	servedByOther := record.Shared && len(all.ofTenant(hosts)) > 0
	for _, tenant := range b.tenantsOf(key) {
		if _, has := records[mastercfg.K8sServiceKey(tenant, record.Namespace, record.Name)]; servedByOther && tenant != hosts && !has {
			continue // a record with former backends only would refuse its pods what the other tenant serves
		}
		left, err := b.draining(r, record, tenant, records)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			enter(records, record, tenant, tenant != hosts, left)
			d.lookAgain(leftAgain)
		}
	}
	d.records, err = encoded(records)
	return err
}

// enter adds the records of a service for the pods of one tenant. guest: hosts do not use this tenant's backends.
func enter(records map[string]any, service mastercfg.K8sService, tenant string, guest bool, list []backend) {
	service.Guest = guest
	records[mastercfg.K8sServiceKey(tenant, service.Namespace, service.Name)] = service
	for _, one := range list {
		records[mastercfg.K8sBackendKey(tenant, service.Namespace, service.Name, one.port, one.Address)] = one.K8sBackend
	}
}

// sooner returns the earlier of two times; 0: none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
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
