package k8s

import "github.com/contiv/netplugin/netmaster/mastercfg"

// TellAddress tells of a pod that gets no address, for which of the reasons, and why; an empty lack: it has one. What a node
// says of a pod counts if the pod is its own.
func (c *Controller) TellAddress(namespace, name, uid, node, reason, lack string) {
	pod, err := c.informers.Core().V1().Pods().Lister().Pods(namespace).Get(name)
	if err != nil || uidOf(pod) != uid || pod.Spec.NodeName != node {
		return // it is gone, or another one has its name
	}
	for _, known := range []string{mastercfg.PoolExhausted, mastercfg.TenantFull} {
		said := ""
		if known == reason {
			said = lack
		}
		c.warn(pod, podKey(namespace+"/"+name), known, "Allocate", said)
	}
}

// podKey is what a pod is called among warnings.
func podKey(name string) string { return "pod/" + name }
