package k8s

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/contiv/netplugin/objdb/ledger"
)

// homes knows which tenant the services of each namespace are in. What tenants say of the namespaces that they are
// for is in the store, of which no informer tells.
type homes struct {
	*Controller
	namespaces corelisters.NamespaceLister
	services   func(namespace any) (keys []string)
	changed    func(services ...string)

	mu sync.Mutex
	of map[string]string // tenant, by namespace
}

// homesAgain is when tenants are looked at again, and how late services may learn of them.
const homesAgain = time.Second

// homeReconciler has services reconciled whose namespace is of another tenant than before.
func (c *Controller) homeReconciler(services *reconciler) *reconciler {
	core := c.informers.Core().V1()
	h := &homes{Controller: c, namespaces: core.Namespaces().Lister(), services: within(core.Services().Informer()), changed: services.mark}
	return &reconciler{kind: "service tenant", workers: 1, known: h.known, reconcile: h.reconcile}
}

// known learns the tenants before services are reconciled, all of which are then.
func (h *homes) known(r ledger.Reader) (all []string, err error) {
	_, err = h.differ(r)
	return []string{"all"}, err
}

func (h *homes) reconcile(context.Context, string) (again time.Duration, err error) {
	err = h.ledger.View(func(r ledger.Reader) error {
		changed, err := h.differ(r)
		for _, namespace := range changed {
			h.changed(h.services(namespace)...)
		}
		return err
	})
	return homesAgain, err
}

// differ finds the namespaces whose services are in another tenant than when it was last called.
func (h *homes) differ(r ledger.Reader) (changed []*corev1.Namespace, err error) {
	namespaces, err := h.namespaces.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := make(map[string]string, len(namespaces))
	for _, namespace := range namespaces {
		home, err := serviceTenant(r, namespace)
		if err != nil {
			home = "" // who reconciles its services tells
		}
		if now[namespace.Name] = home; h.of[namespace.Name] != home {
			changed = append(changed, namespace)
		}
	}
	h.of = now
	return changed, nil
}
