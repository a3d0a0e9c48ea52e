package mastercfg

// Words by which containers, and namespaces of Kubernetes, say where they belong.
const (
	TenantLabel  = "io.contiv.tenant"
	NetworkLabel = "io.contiv.network"
	GroupLabel   = "io.contiv.net-group"
)

// Where a container belongs of which nobody says anything; it has no group then.
const (
	DefaultTenant  = "default"
	DefaultNetwork = "default-net"
)

// AccessNetwork is the infra network through which a host reaches the others of its tenant.
const AccessNetwork = "contivh1"

// K8sPod says where a pod of Kubernetes belongs, or why it belongs nowhere. The leader
// writes it as soon as the pod is bound to a node, so that agents need no credentials for
// the API server; it stays as it is while the pod lives.
type K8sPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"` // that kubelet knows the pod by

	Tenant  string `json:"tenant,omitempty"`
	Network string `json:"network,omitempty"`
	Group   string `json:"group,omitempty"` // empty: none

	// Why the pod is refused: a word that programs know, as events have it, and a
	// sentence for people. Empty: it is not.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Pod is the pod's name with its namespace.
func (p K8sPod) Pod() string { return p.Namespace + "/" + p.Name }

// K8sPodKey is where a pod of a node is noted.
func K8sPodKey(node, uid string) string { return K8sPodPrefix + node + "/" + uid }
