package mastercfg

// K8sTrouble is an object of Kubernetes that a node does not serve as it should, and why.
type K8sTrouble struct {
	Kind      string `json:"kind"` // K8sOfService or K8sOfPod
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"` // of a pod: another one may have its name by now
	Reason    string `json:"reason"`        // of the event, one of those below
	Message   string `json:"message"`
}

// Kinds of objects of which nodes tell.
const (
	K8sOfService = "service"
	K8sOfPod     = "pod"
)

// Reasons of events that nodes give.
const (
	NodePortInUse     = "NodePortInUse"                   // something on a node has the node port of a service, too
	BalancerPortInUse = "LoadBalancerPortInUse"           // or its port at an address of load balancers that the node has
	HostPortInUse     = "HostPortInUse"                   // or a host port of a pod
	HostPortConflict  = "HostPortConflict"                // a pod does not start: the node, or another pod of it, has a host port that it asks for
	HealthPortClosed  = "FailedToStartServiceHealthcheck" // load balancers get no answer at the port of a service: the word of Kubernetes' own proxy
	ProbesNotReached  = "ProbesNotReached"                // processes of its node do not reach a pod that kubelet probes over the network
)
