package k8s

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// profileOf returns the profile that a pod of a tenant requests, by its annotation or, for the namespace's own
// tenant, by that of the namespace; without a name: none.
func profileOf(r ledger.Reader, pod *corev1.Pod, namespace *corev1.Namespace, tenant string) (none mastercfg.K8sProfile, err error) {
	sources := []map[string]string{pod.Annotations}
	if tenantOfNamespace(namespace) == tenant {
		sources = append(sources, namespace.Annotations, namespace.Labels)
	}
	name := first(mastercfg.ProfileAnnotation, sources)
	if name == "" {
		return none, nil
	}
	if err := checkName(pod, mastercfg.ProfileAnnotation, name); err != nil {
		return none, err
	}
	profile, err := master.Get[contivmodel.Netprofile](r, tenant+":"+name,
		refuse("ProfileNotFound", "tenant %s has no netprofile %s: netctl netprofile create -t %s %s", tenant, name, tenant, name))
	if err != nil {
		return none, err
	}
	return master.PodProfile(profile), nil
}
