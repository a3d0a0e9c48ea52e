package k8s

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// version tells an object from what it was before, and from another that had its name.
type version struct {
	uid      types.UID
	resource string
}

func versionOf(object metav1.Object) version {
	return version{object.GetUID(), object.GetResourceVersion()}
}

// hasHeardAll tells whether the engine has been told all that may select a pod of a namespace, as the caches have it.
// It is told nothing while policies are written, which may take seconds: a pod that comes then would be of a class that
// a policy which is known by now does not know, and not isolated. What is not understood of a policy is told, too, so
// nobody waits for it for ever. Policies that are gone isolate a while longer.
func (p *policies) hasHeardAll(namespace string) bool {
	heard := func(key string, object metav1.Object) bool {
		told, known := p.heard[key]
		return known && told == versionOf(object)
	}
	at, err := p.namespaces.Get(namespace)
	if err != nil || !heard(ofNamespace+namespace, at) {
		return false
	}
	isolating, err := p.network.NetworkPolicies(namespace).List(labels.Everything())
	if err != nil {
		return false
	}
	for _, policy := range isolating {
		if !heard(ofNetworkPolicy+namespace+"/"+policy.Name, policy) {
			return false
		}
	}
	for _, policy := range p.cluster.list() {
		if told, known := p.told[policy.Name]; !known || told != specOf(policy) {
			return false
		}
	}
	return true
}
