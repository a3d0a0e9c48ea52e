package labels

import (
	"context"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// Placed is the source under Kubernetes: netmaster watches the API server and stores the identity of each pod. The
// node needs no credentials for the API server.
type Placed struct {
	// Pod waits until netmaster has placed a pod of this node, and returns its record; uid may be empty.
	Pod func(ctx context.Context, namespace, name, uid string) (mastercfg.K8sPod, error)

	mirrorless mirrorless
}

// placedTime is how long an ADD waits for netmaster, which learns of a pod from the same API server as kubelet.
// After that the runtime is asked to try again.
const placedTime = 5 * time.Second

// Identify returns the identity of the pod that CNI_ARGS names.
func (p *Placed) Identify(ctx context.Context, args netconf.Args, conf *netconf.Conf) (Identity, error) {
	namespace, name := args[netconf.PodNamespace], args[netconf.PodName]
	if namespace == "" || name == "" {
		return Identity{}, fault.New(fault.Invalid, "CNI_ARGS: %s %q, %s %q: both are needed to find where the pod belongs",
			netconf.PodNamespace, namespace, netconf.PodName, name)
	}
	uid := args[netconf.PodUID]
	alone := isStatic(uid, conf.Runtime.Annotations) && p.mirrorless.tried(uid, time.Now())
	waiting, cancel := context.WithTimeout(ctx, placedTime)
	defer cancel()
	pod, err := p.Pod(waiting, namespace, name, uid)
	switch {
	case err != nil && alone && ctx.Err() == nil:
		return withoutMirror(uid, &conf.Runtime)
	case err != nil:
		return Identity{}, err
	case pod.Reason != "":
		return Identity{}, fault.New(fault.Invalid, "%s: %s", pod.Reason, pod.Message)
	}
	return Identity{
		Tenant: pod.Tenant, Network: pod.Network, Group: pod.Group, IPv4: pod.IPv4, IPv6: pod.IPv6,
		HostPorts: pod.HostPorts, PodUID: pod.UID,
	}, nil
}
