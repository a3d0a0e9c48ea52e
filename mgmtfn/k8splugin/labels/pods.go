package labels

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/k8sutils"
)

// Pods is the source under Kubernetes: the labels of the pod, then the fields
// of the network configuration.
//
// Every call reads the pod anew. A cache would have to be told apart by pod
// UID and kept fresh; one read per pod start costs less than a pod on the
// wrong network.
type Pods struct{ Client corev1client.PodsGetter }

// FromFile is the source that contiv.json calls for: the API server it names,
// or the CNI call itself if it names none.
func FromFile(path string) (Source, error) {
	config, err := k8sutils.Load(path)
	if fault.Is(err, fault.NotFound) {
		return Call{}, nil
	}
	if err != nil {
		return nil, err
	}
	client, err := config.Client()
	if err != nil {
		return nil, err
	}
	return Pods{Client: client.CoreV1()}, nil
}

// Annotations by which the API server's copy of a static pod names the UID
// that kubelet knows it by.
const (
	mirrorAnnotation = "kubernetes.io/config.mirror"
	hashAnnotation   = "kubernetes.io/config.hash"
)

// Identify reads the pod that CNI_ARGS names.
func (p Pods) Identify(ctx context.Context, args netconf.Args, conf *netconf.Conf) (Identity, error) {
	namespace, name := args[netconf.PodNamespace], args[netconf.PodName]
	if namespace == "" || name == "" {
		return Identity{}, fault.New(fault.Invalid, "CNI_ARGS: %s %q, %s %q: both are needed to find the pod's labels",
			netconf.PodNamespace, namespace, netconf.PodName, name)
	}
	pod, err := p.Client.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Identity{}, fault.New(kindOf(err), "read labels of pod %s/%s: %w", namespace, name, err)
	}
	if uid := args[netconf.PodUID]; uid != "" && !isPod(pod, uid) {
		return Identity{}, fault.New(fault.NotFound, "pod %s/%s with uid %s is gone, the present one has uid %s",
			namespace, name, uid, pod.UID)
	}
	return resolve(conf, func(label string) string { return pod.Labels[label] }), nil
}

// isPod tells whether kubelet, which says uid, means this pod.
func isPod(pod *corev1.Pod, uid string) bool {
	return string(pod.UID) == uid || pod.Annotations[mirrorAnnotation] == uid || pod.Annotations[hashAnnotation] == uid
}

// kindOf gives an error of the API server its kind; what did not get there or
// was turned away for load is worth another try.
func kindOf(err error) fault.Kind {
	switch {
	case apierrors.IsNotFound(err):
		return fault.NotFound
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fault.Denied
	}
	return fault.Unavailable
}
