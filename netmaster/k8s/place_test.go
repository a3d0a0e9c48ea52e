package k8s

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			annotations: words{networkKey: "a"}, labels: words{networkKey: "b"}, nsAnnotations: words{networkKey: "c"},
			want: place{"default", "a", ""},
		},
		"label before namespace": {
			labels: words{networkKey: "b"}, nsAnnotations: words{networkKey: "c"}, want: place{"default", "b", ""},
		},
		"namespace's annotation before its label": {
			nsAnnotations: words{tenantKey: "blue", networkKey: "c"}, nsLabels: words{tenantKey: "red", networkKey: "d"},
			want: place{"blue", "c", ""},
		},
		"each word on its own": {
			labels: words{networkKey: "b"}, nsLabels: words{tenantKey: "blue"}, want: place{"blue", "b", ""},
		},
		"another tenant is refused": {labels: words{tenantKey: "blue"}, reason: "TenantNotAllowed"},
		"another tenant that is allowed does not inherit the network": {
			labels: words{tenantKey: "blue"}, nsAnnotations: words{allowedKey: "red, blue", networkKey: "c", groupKey: "front"},
			want: place{"blue", "default-net", ""},
		},
		"open choice":                     {labels: words{tenantKey: "blue"}, choice: Open, want: place{"blue", "default-net", ""}},
		"the namespace's tenant, by name": {labels: words{tenantKey: "blue"}, nsLabels: words{tenantKey: "blue"}, want: place{"blue", "default-net", ""}},
		"group without network":           {labels: words{groupKey: "front"}, want: place{"default", "web", "front"}},
		"group of another network":        {labels: words{groupKey: "front", networkKey: "b"}, reason: "PlacementConflict"},
		"group of the same network":       {labels: words{groupKey: "front"}, nsLabels: words{networkKey: "web"}, want: place{"default", "web", "front"}},
		"a name that is none":             {nsLabels: words{tenantKey: "blue"}, annotations: words{groupKey: "a b"}, reason: "InvalidName"},
		"a name without end":              {annotations: words{networkKey: strings.Repeat("a", 1<<16)}, reason: "InvalidName"},
		"no such group":                   {labels: words{groupKey: "back"}, reason: "GroupNotFound"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Annotations: c.annotations, Labels: c.labels}}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: c.nsAnnotations, Labels: c.nsLabels}}
		got, err := placement(pod, namespace, c.choice, networkOf)
		var refused *refusal
		errors.As(err, &refused)
		if c.reason == "" && (err != nil || got != c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
		if refused != nil && len(refused.message) > 1000 { // what an event may say
			t.Errorf("%s: message of %d bytes", name, len(refused.message))
		}
		if c.reason != "" && (refused == nil || refused.reason != c.reason) {
			t.Errorf("%s: %v, %v, want reason %s", name, got, err, c.reason)
		}
	}
}
