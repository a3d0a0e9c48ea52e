package k8s

import "github.com/contiv/netplugin/netmaster/mastercfg"

// TellAddress reports whether a pod gets an address; lack is why not, with the reason of its event, and empty
// if it does. A node's report counts only for its own pods.
func (c *Controller) TellAddress(namespace, name, uid, node, reason, lack string) {
	pod, err := c.informers.Core().V1().Pods().Lister().Pods(namespace).Get(name)
	if err != nil || uidOf(pod) != uid || pod.Spec.NodeName != node {
		return // it was deleted, or another one has its name
	}
	for _, known := range []string{mastercfg.PoolExhausted, mastercfg.TenantFull} {
		said := ""
		if known == reason {
			said = lack
		}
		c.warn(pod, podKey(namespace+"/"+name), known, "Allocate", said)
	}
}

// podKey returns the key of a pod's warnings.
func podKey(name string) string { return "pod/" + name }
