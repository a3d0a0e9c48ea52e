package k8s

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// nodeObject is an object that a node does not serve as it should. A node may report its own pods, and services, which
// all nodes serve. Another pod with the same name has another UID; agents of earlier versions send none.
type nodeObject struct{ kind, namespace, name, uid, reason string }

// key returns the key of the object's warnings.
func (o nodeObject) key() string { return o.kind + "/" + o.namespace + "/" + o.name }

// nodeReasons are the valid reasons in a node's report, by the kind of object.
var nodeReasons = map[string][]string{
	mastercfg.K8sOfService: {mastercfg.NodePortInUse, mastercfg.BalancerPortInUse, mastercfg.HealthPortClosed},
	mastercfg.K8sOfPod:     {mastercfg.HostPortInUse, mastercfg.HostPortConflict, mastercfg.ProbesNotReached},
}

// reportNodeProblems warns of objects that nodes do not serve as they should, and ends the warnings of others.
// The warnings of a deleted object end with it.
func (r *reports) reportNodeProblems(nodes map[string]mastercfg.K8sEnforced) {
	now := r.nodeMessages(nodes)
	for o := range r.nodeProblems {
		if now[o] == "" {
			r.warnings.set(o.key(), "", o.reason, "")
		}
	}
	for o, message := range now {
		if object := r.object(o); object != nil {
			r.warn(object, o.key(), o.reason, "Serve", message)
		}
	}
	r.nodeProblems = now
}

// nodeMessages returns a message for each object: that of the first node, by name, that reports it.
func (r *reports) nodeMessages(nodes map[string]mastercfg.K8sEnforced) map[nodeObject]string {
	all, others := map[nodeObject]string{}, map[nodeObject]bool{}
	for _, node := range slices.Backward(slices.Sorted(maps.Keys(nodes))) {
		for _, p := range nodes[node].Troubles {
			o := nodeObject{p.Kind, p.Namespace, p.Name, p.UID, p.Reason}
			if !slices.Contains(nodeReasons[o.kind], o.reason) || o.kind == mastercfg.K8sOfPod && !r.isPodOnNode(o, node) {
				continue
			}
			where := node
			if others[o] {
				where += " and others" // without their number: each number would be another event
			}
			all[o], others[o] = fmt.Sprintf("on %s: %s", where, p.Message), true
		}
	}
	return all
}

// isPodOnNode reports whether a pod is on a node.
func (r *reports) isPodOnNode(o nodeObject, node string) bool {
	pod, is := r.object(o).(*corev1.Pod)
	return is && pod.Spec.NodeName == node
}

// object returns the object of the API server; nil: it was deleted.
func (r *reports) object(o nodeObject) runtime.Object {
	if o.kind == mastercfg.K8sOfPod {
		if pod, err := r.pods.Pods(o.namespace).Get(o.name); err == nil && (o.uid == "" || o.uid == uidOf(pod)) {
			return pod
		}
		return nil
	}
	if service, err := r.informers.Core().V1().Services().Lister().Services(o.namespace).Get(o.name); err == nil {
		return service
	}
	return nil
}
