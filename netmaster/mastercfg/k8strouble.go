package mastercfg

// K8sTrouble is an object of Kubernetes that a node does not serve as it should, and the reason.
type K8sTrouble struct {
	Kind      string `json:"kind"` // K8sOfService or K8sOfPod
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"` // of a pod: another one may have its name by now
	Reason    string `json:"reason"`        // of the event, one of those below
	Message   string `json:"message"`
}

// Kinds of objects in reports of nodes.
const (
	K8sOfService = "service"
	K8sOfPod     = "pod"
)

// Reasons of events reported by nodes.
const (
	NodePortInUse     = "NodePortInUse"                   // another process on a node uses the node port of a service
	BalancerPortInUse = "LoadBalancerPortInUse"           // or its port at an address of load balancers that the node has
	HostPortInUse     = "HostPortInUse"                   // or a host port of a pod
	HostPortConflict  = "HostPortConflict"                // a pod does not start: the node, or another pod of it, has a host port that it requests
	HealthPortClosed  = "FailedToStartServiceHealthcheck" // load balancers get no answer at the health check port of a service: the reason is that of kube-proxy
	ProbesNotReached  = "ProbesNotReached"                // processes of its node do not reach a pod that kubelet probes over the network
)
