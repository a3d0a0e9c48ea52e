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

// serviceTenant returns the tenant of services of a namespace; empty: none.
func serviceTenant(r ledger.Reader, namespace *corev1.Namespace) (string, error) {
	home := tenantOfNamespace(namespace)
	if !isName(home) {
		return "", nil
	}
	tenant, err := master.GetShared[contivmodel.Tenant](r, home, errNoTenant)
	switch {
	case errors.Is(err, errNoTenant):
		return home, nil // it may be created later
	case err != nil || !tenant.Admits(namespace.Name):
		return "", err
	}
	return home, nil
}

var errNoTenant = errors.New("no such tenant")

// tenantRevision returns the revision of the tenant record that decides whether it admits the namespace; 0: none.
func tenantRevision(r ledger.Reader, namespace *corev1.Namespace) int64 {
	return r.Revision(mastercfg.ModelKey("tenant", tenantOfNamespace(namespace)))
}

// tenantsAgain is the interval of checks for changed tenants, by which services may be late.
const tenantsAgain = time.Second

// tenantReconciler queues services that were reconciled for another revision of their namespace's tenant than
// the present one. Tenants are in the store, which informers do not watch.
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

// withOtherTenantRevision lists the services that were reconciled for another revision of their tenant than the
// present one. Services of created or deleted namespaces are queued by the informer of namespaces.
func (b *balancer) withOtherTenantRevision(r ledger.Reader) (services []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for service, revision := range b.judged {
		name, _, _ := cache.SplitMetaNamespaceKey(service) // it was built by the same function
		if namespace, err := b.namespaces.Get(name); err == nil && tenantRevision(r, namespace) != revision {
			services = append(services, service)
		}
	}
	return services
}
