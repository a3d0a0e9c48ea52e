package k8s

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// allowedKey is an annotation of a namespace: further tenants that its pods may choose, separated by commas.
const allowedKey = "io.contiv.allowed-tenants"

// place is the place of a pod: tenant, network and group.
type place struct{ tenant, network, group string }

// refusal is why a pod is not placed. Its reason is that of an event.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

func refuse(reason, format string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// TenantChoice defines who may choose the tenant of a pod.
type TenantChoice string

// Choices.
const (
	ByNamespace TenantChoice = "namespace" // pods may choose a tenant that the namespace allows
	Open        TenantChoice = "open"      // pods may choose any tenant, as in the original controller
)

// placement determines the place of a pod. Each value is taken from the first source that has it: annotation of
// the pod, its label, annotation of the namespace, its label. The network and the group of a namespace belong
// to its tenant: pods of another tenant do not inherit them. networkOf returns the network of a group, and is
// called if only the group is known.
func placement(pod *corev1.Pod, namespace *corev1.Namespace, choice TenantChoice,
	networkOf func(tenant, group string) (string, error)) (place, error) {

	ofPod := []map[string]string{pod.Annotations, pod.Labels}
	ofNamespace := []map[string]string{namespace.Annotations, namespace.Labels}
	for _, word := range []string{mastercfg.TenantLabel, mastercfg.NetworkLabel, mastercfg.GroupLabel} {
		for _, p := range slices.Concat(ofPod, ofNamespace) {
			if err := checkName(pod, word, p[word]); err != nil {
				return place{}, err
			}
		}
	}
	home := tenantOfNamespace(namespace)
	at := place{tenant: cmp.Or(first(mastercfg.TenantLabel, ofPod), home)}
	if at.tenant != home && choice != Open && !slices.Contains(allowed(namespace), at.tenant) {
		return place{}, refuse("TenantNotAllowed", "pod %s/%s asks for tenant %s, but its namespace is of tenant %s and does not allow others: "+
			"name them in its annotation %s", pod.Namespace, pod.Name, at.tenant, home, allowedKey)
	}
	sources := slices.Clone(ofPod)
	if at.tenant == home {
		sources = append(sources, ofNamespace...)
	}
	at.network, at.group = first(mastercfg.NetworkLabel, sources), first(mastercfg.GroupLabel, sources)
	if at.group != "" {
		network, err := networkOf(at.tenant, at.group)
		if err != nil {
			return place{}, err
		}
		if at.network == "" {
			at.network = network
		}
		if at.network != network {
			return place{}, refuse("PlacementConflict", "pod %s/%s asks for network %s and for group %s of tenant %s, which is in network %s: "+
				"leave %s out, or name a group of network %s", pod.Namespace, pod.Name, at.network, at.group, at.tenant, network, mastercfg.NetworkLabel, at.network)
		}
	}
	at.network = cmp.Or(at.network, mastercfg.DefaultNetwork)
	return at, nil
}

// checkName refuses an invalid name: users write annotations, and the values go into the state and into messages.
func checkName(pod *corev1.Pod, word, name string) error {
	if name == "" || isName(name) {
		return nil
	}
	return refuse("InvalidName", "pod %s/%s: %s is %.64q: want letters, digits, '.', '_' and '-', at most %d",
		pod.Namespace, pod.Name, word, name, maxName)
}

// maxName is the maximum length of a name in the model; nameRule accepts all names of the model.
const maxName = 64

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func isName(text string) bool { return len(text) <= maxName && nameRule.MatchString(text) }

// tenantOfNamespace returns the tenant of a namespace.
func tenantOfNamespace(namespace *corev1.Namespace) string {
	return cmp.Or(first(mastercfg.TenantLabel, []map[string]string{namespace.Annotations, namespace.Labels}), mastercfg.DefaultTenant)
}

// first returns the value of a word in the first source that has it.
func first(word string, places []map[string]string) string {
	for _, p := range places {
		if p[word] != "" {
			return p[word]
		}
	}
	return ""
}

func allowed(namespace *corev1.Namespace) (tenants []string) {
	for tenant := range strings.SplitSeq(namespace.Annotations[allowedKey], ",") {
		tenants = append(tenants, strings.TrimSpace(tenant))
	}
	return tenants
}
