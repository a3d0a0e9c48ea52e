package k8s

// poolExhausted is the reason of events about pods for which there is no address.
const poolExhausted = "PoolExhausted"

// TellAddress tells of a pod that gets no address, and why; an empty lack: it has one. What a node says of a pod counts if the pod is
// its own.
func (c *Controller) TellAddress(namespace, name, uid, node, lack string) {
	pod, err := c.informers.Core().V1().Pods().Lister().Pods(namespace).Get(name)
	if err != nil || uidOf(pod) != uid || pod.Spec.NodeName != node {
		return // it is gone, or another one has its name
	}
	c.warn(pod, podKey(namespace+"/"+name), poolExhausted, "Allocate", lack)
}

// podKey is what a pod is called among warnings.
func podKey(name string) string { return "pod/" + name }
