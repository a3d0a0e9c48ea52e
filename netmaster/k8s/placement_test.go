package k8s

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

func TestAPodBelongsWhereTheFirstPlaceThatSaysSoHasIt(t *testing.T) {
	type words = map[string]string
	networkOf := func(tenant, group string) (string, error) {
		networks := map[string]string{"default/front": "web", "blue/front": "inside"}
		if network := networks[tenant+"/"+group]; network != "" {
			return network, nil
		}
		return "", refuse("GroupNotFound", "no group %s", group)
	}
	for name, c := range map[string]struct {
		annotations, labels     words // of the pod
		nsAnnotations, nsLabels words
		choice                  TenantChoice
		want                    place
		reason                  string
	}{
		"nobody says anything": {want: place{"default", "default-net", ""}},
		"annotation before label": {
			annotations: words{mastercfg.NetworkLabel: "a"}, labels: words{mastercfg.NetworkLabel: "b"}, nsAnnotations: words{mastercfg.NetworkLabel: "c"},
			want: place{"default", "a", ""},
		},
		"label before namespace": {
			labels: words{mastercfg.NetworkLabel: "b"}, nsAnnotations: words{mastercfg.NetworkLabel: "c"}, want: place{"default", "b", ""},
		},
		"namespace's annotation before its label": {
			nsAnnotations: words{mastercfg.TenantLabel: "blue", mastercfg.NetworkLabel: "c"}, nsLabels: words{mastercfg.TenantLabel: "red", mastercfg.NetworkLabel: "d"},
			want: place{"blue", "c", ""},
		},
		"each word on its own": {
			labels: words{mastercfg.NetworkLabel: "b"}, nsLabels: words{mastercfg.TenantLabel: "blue"}, want: place{"blue", "b", ""},
		},
		"another tenant is refused": {labels: words{mastercfg.TenantLabel: "blue"}, reason: "TenantNotAllowed"},
		"another tenant that is allowed does not inherit the network": {
			labels: words{mastercfg.TenantLabel: "blue"}, nsAnnotations: words{allowedKey: "red, blue", mastercfg.NetworkLabel: "c", mastercfg.GroupLabel: "front"},
			want: place{"blue", "default-net", ""},
		},
		"open choice":                     {labels: words{mastercfg.TenantLabel: "blue"}, choice: Open, want: place{"blue", "default-net", ""}},
		"the namespace's tenant, by name": {labels: words{mastercfg.TenantLabel: "blue"}, nsLabels: words{mastercfg.TenantLabel: "blue"}, want: place{"blue", "default-net", ""}},
		"group without network":           {labels: words{mastercfg.GroupLabel: "front"}, want: place{"default", "web", "front"}},
		"group of another network":        {labels: words{mastercfg.GroupLabel: "front", mastercfg.NetworkLabel: "b"}, reason: "PlacementConflict"},
		"group of the same network":       {labels: words{mastercfg.GroupLabel: "front"}, nsLabels: words{mastercfg.NetworkLabel: "web"}, want: place{"default", "web", "front"}},
		"a name that is none":             {nsLabels: words{mastercfg.TenantLabel: "blue"}, annotations: words{mastercfg.GroupLabel: "a b"}, reason: "InvalidName"},
		"a name without end":              {annotations: words{mastercfg.NetworkLabel: strings.Repeat("a", 1<<16)}, reason: "InvalidName"},
		"no such group":                   {labels: words{mastercfg.GroupLabel: "back"}, reason: "GroupNotFound"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Annotations: c.annotations, Labels: c.labels}}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: c.nsAnnotations, Labels: c.nsLabels}}
		got, err := placement(pod, namespace, c.choice, networkOf)
		var refused *refusal
		errors.As(err, &refused)
		if c.reason == "" && (err != nil || got != c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
		if refused != nil && len(refused.message) > 1000 { // the limit of an event
			t.Errorf("%s: message of %d bytes", name, len(refused.message))
		}
		if c.reason != "" && (refused == nil || refused.reason != c.reason) {
			t.Errorf("%s: %v, %v, want reason %s", name, got, err, c.reason)
		}
	}
}
