package mastercfg

// K8sPort is an object of Kubernetes that does not get a port of a node as it should, and why.
type K8sPort struct {
	Kind      string `json:"kind"` // K8sOfService or K8sOfPod
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"` // of a pod: another one may have its name by now
	Reason    string `json:"reason"`        // of the event, one of those below
	Message   string `json:"message"`
}

// Kinds of objects that have ports of nodes.
const (
	K8sOfService = "service"
	K8sOfPod     = "pod"
)

// Reasons of events about ports of nodes.
const (
	NodePortInUse    = "NodePortInUse"                   // something on a node has the node port of a service, too
	HostPortInUse    = "HostPortInUse"                   // or a host port of a pod
	HealthPortClosed = "FailedToStartServiceHealthcheck" // load balancers get no answer at the port of a service: the word of Kubernetes' own proxy
)
