package k8s

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	k8stesting "k8s.io/client-go/testing"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// A leader that begins with an API server that lags behind must not take missing objects as deleted.
func TestALeaderThatBeginsAsksForListsOfNow(t *testing.T) {
	w := newWorld(t)
	w.served().Store(true)
	w.pod("web", "u1", "node1", nil)
	w.service("web", nil, "http=80")
	w.slice("web-1", "web", "http", 8080, nil, "10.128.0.1 u1 node1")
	w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deny"}}, metav1.CreateOptions{}))
	w.must(w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Create(t.Context(), &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
			Ingress: []ingress{{Action: "Deny", From: []from{{Namespaces: &metav1.LabelSelector{}}}}}}}, metav1.CreateOptions{}))
	stop := w.follow()
	w.wantClasses(map[string]string{"web": "guarded"}, ofClusterPolicy+"guard", ofNetworkPolicy+"shop/deny")
	services := []string{"default/shop/web", "default/shop/web/http/10.128.0.1:8080"}
	w.wantServices(services...)
	stop()
	before := w.state()

	former := map[string]runtime.Object{
		"pods": &corev1.PodList{}, "nodes": &corev1.NodeList{}, "services": &corev1.ServiceList{}, "endpointslices": &discoveryv1.EndpointSliceList{},
		"networkpolicies": &networkingv1.NetworkPolicyList{}, clusterPolicyResource: &v1alpha2.ClusterNetworkPolicyList{},
	}
	lags := func(action k8stesting.Action) (bool, runtime.Object, error) {
		list, known := former[action.GetResource().Resource]
		return known && action.(k8stesting.ListActionImpl).ListOptions.ResourceVersion == anyVersion, list, nil
	}
	silent := func(k8stesting.Action) (bool, watch.Interface, error) { return true, watch.NewFake(), nil } // while it lags
	w.client.PrependReactor("list", "*", lags)
	w.client.PrependWatchReactor("*", silent)
	w.policies.PrependReactor("list", "*", lags)
	w.policies.PrependWatchReactor("*", silent)
	c := w.controller()
	stop = w.run(c)
	w.begun(c)
	w.wantServices(services...)
	stop()
	if now := w.state(); !maps.Equal(now, before) {
		t.Errorf("state %v, was %v", now, before)
	}
}
