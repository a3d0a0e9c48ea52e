package k8s

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// serviceTenant is the tenant of services of a namespace; empty: of none.
func serviceTenant(r ledger.Reader, namespace *corev1.Namespace) (string, error) {
	home := tenantOfNamespace(namespace)
	if !isName(home) {
		return "", nil
	}
	tenant, err := master.GetShared[contivmodel.Tenant](r, home, errNoTenant)
	switch {
	case errors.Is(err, errNoTenant):
		return home, nil // it may come
	case err != nil || !tenant.Admits(namespace.Name):
		return "", err
	}
	return home, nil
}

var errNoTenant = errors.New("no such tenant")

// tenantRevision is that of the record which says whether a namespace's tenant is for it; 0: there is none.
func tenantRevision(r ledger.Reader, namespace *corev1.Namespace) int64 {
	return r.Revision(mastercfg.ModelKey("tenant", tenantOfNamespace(namespace)))
}

// tenantsAgain is when tenants are looked at again, and how late services may learn of them.
const tenantsAgain = time.Second

// tenantReconciler has services reconciled that were judged by another revision of their namespace's tenant than
// there is now. Tenants are in the store, of which no informer tells.
func (b *balancer) tenantReconciler(services *reconciler) *reconciler {
	return &reconciler{
		kind: "service tenant", workers: 1,
		known: func(ledger.Reader) ([]string, error) { return []string{"all"}, nil },
		reconcile: func(context.Context, string) (time.Duration, error) {
			return tenantsAgain, b.ledger.View(func(r ledger.Reader) error {
				services.enqueue(b.withOtherTenantRevision(r)...)
				return nil
			})
		},
	}
}

// noteTenantRevision records the revision of the tenant by which a service was reconciled.
func (b *balancer) noteTenantRevision(service string, revision int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.judged[service] = revision
}

// forgetTenantRevision drops a service that has no records.
func (b *balancer) forgetTenantRevision(service string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.judged, service)
}

// withOtherTenantRevision lists the services that were reconciled by another revision of their tenant than the present one. Services of
// namespaces that are created or deleted are queued by the informer of namespaces.
func (b *balancer) withOtherTenantRevision(r ledger.Reader) (services []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for service, revision := range b.judged {
		name, _, _ := cache.SplitMetaNamespaceKey(service) // it was one
		if namespace, err := b.namespaces.Get(name); err == nil && tenantRevision(r, namespace) != revision {
			services = append(services, service)
		}
	}
	return services
}
