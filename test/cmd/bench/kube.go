package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/contiv/netplugin/test/testbed"
)

// Typical Kubernetes objects, for the simulated API server.

// kubeAddress is the address of the simulated API server on its node.
const kubeAddress = "127.0.0.1:6443"

// followKube configures the netmasters of a bed, which are not started yet, to watch that API server.
func followKube(ctx context.Context, bed *testbed.Bed) error {
	for _, n := range bed.Nodes {
		if _, err := n.Run(ctx, "sh", "-ec", `mkdir -p /var/contiv/config && printf %s "$1" > /var/contiv/config/contiv.json`, "sh",
			`{"K8S_API_SERVER":"http://`+kubeAddress+`","K8S_TOKEN":"bench"}`); err != nil {
			return err
		}
	}
	return nil
}

func kubeNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelMetadataName: name}}}
}

func kubeNode(name, address string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}}}
}

func kubeRange(cidr string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}
}

// kubePod returns a running pod of a deployment.
func kubePod(namespace, name, node, address string, labels map[string]string) *corev1.Pod {
	all := map[string]string{"pod-template-hash": "5d4f8c7b9d", "app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/part-of": "store"}
	for key, value := range labels {
		all[key] = value
	}
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: kubeUID(namespace, name), GenerateName: "web-5d4f8c7b9d-", Labels: all,
			Annotations:     map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9102", "kubectl.kubernetes.io/restartedAt": "2026-01-02T03:04:05Z"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d4f8c7b9d", UID: "8c0e6f5a-7b34-4f3e-9d0c-6a1f2e3d4c5b", Controller: &yes}},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(managedFields)}},
		},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "default",
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/store/web:1.2.3",
				Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
				Env:          []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
				VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access-x7k2p", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Ready: true, Image: "registry.example.com/store/web:1.2.3", ImageID: "sha256:0f1e2d3c", ContainerID: "containerd://4b5a69788796a5b4"}},
		},
	}
}

// kubeUID returns the UID of a pod.
func kubeUID(namespace, name string) types.UID { return types.UID("uid-" + namespace + "-" + name) }

// managedFields have the usual length of those of a pod.
const managedFields = `{"f:metadata":{"f:annotations":{".":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},` +
	`"f:ownerReferences":{".":{},"k:{\"uid\":\"8c0e6f5a-7b34-4f3e-9d0c-6a1f2e3d4c5b\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:env":{".":{},` +
	`"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":` +
	`{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},"f:resources":{},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},` +
	`"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}`

// kubePolicy returns a policy that admits connections to pods of an app, at a port, from pods of other apps of the
// same namespace and of another one.
func kubePolicy(namespace, name, app string, from []string, other string, port int) *networkingv1.NetworkPolicy {
	at := intstr.FromInt32(int32(port))
	peers := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: other}}}}
	for _, peer := range from {
		peers = append(peers, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": peer}}})
	}
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + namespace + "-" + name)},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: peers, Ports: []networkingv1.NetworkPolicyPort{{Port: &at}}}},
		}}
}

// kubeService returns a TCP service.
func kubeService(namespace, name, address string, port int32) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + namespace + "-" + name)},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: address, ClusterIPs: []string{address}, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromString("http")}}}}
}

// kubeSlice returns the endpoint slice of a service with pods.
func kubeSlice(service *corev1.Service, port int32, pods ...*corev1.Pod) *discoveryv1.EndpointSlice {
	name, protocol, yes := "http", corev1.ProtocolTCP, true
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name + "-x7k2p", Labels: map[string]string{discoveryv1.LabelServiceName: service.Name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}},
	}
	for _, p := range pods {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{p.Status.PodIP}, NodeName: &p.Spec.NodeName,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}})
	}
	return s
}

// addressIn returns an address of a /8 or /16 by number.
func addressIn(format string, i int) string { return fmt.Sprintf(format, i>>8, i&255) }
