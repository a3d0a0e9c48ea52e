package k8s

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// version identifies a version of an object; another object with the same name has another one.
type version struct {
	uid      types.UID
	resource string
}

func versionOf(object metav1.Object) version {
	return version{object.GetUID(), object.GetResourceVersion()}
}

// engineHasAll reports whether the engine has the present versions of all objects that may select a pod of a
// namespace. It is not updated while policies are written, which may take seconds: a new pod would then get a
// class that the newest policies do not select, and would not be isolated. Policies with errors are in the
// engine as well, so no pod waits for them for ever. Deleted policies isolate a while longer.
func (p *policies) engineHasAll(namespace string) bool {
	current := func(key string, object metav1.Object) bool {
		has, known := p.versions[key]
		return known && has == versionOf(object)
	}
	at, err := p.namespaces.Get(namespace)
	if err != nil || !current(ofNamespace+namespace, at) {
		return false
	}
	isolating, err := p.network.NetworkPolicies(namespace).List(labels.Everything())
	if err != nil {
		return false
	}
	for _, policy := range isolating {
		if !current(ofNetworkPolicy+namespace+"/"+policy.Name, policy) {
			return false
		}
	}
	for _, policy := range p.cluster.list() {
		if has, known := p.clusterSpecs[policy.Name]; !known || has != specOf(policy) {
			return false
		}
	}
	return true
}
