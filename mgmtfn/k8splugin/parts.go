package k8splugin

import (
	"context"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
)

// Master allocates addresses and stores the endpoint records of the cluster.
type Master interface {
	// CreateEndpoint is idempotent by container. It returns the store revision as of which the endpoint is visible.
	CreateEndpoint(ctx context.Context, r mastercfg.CreateEndpointRequest) (mastercfg.CfgEndpointState, int64, error)
	// DeleteEndpoint returns fault.NotFound for an endpoint that does not exist.
	DeleteEndpoint(ctx context.Context, r mastercfg.DeleteEndpointRequest) error
}

// Datapath is this node's switch, as the agent runs it.
type Datapath interface {
	// Ready returns nil, or the reason why containers cannot be attached at the moment. The error may have two
	// methods: PodsAffected() bool reports whether attached containers are affected, too; StoreUnread() bool reports
	// whether the switch answers, and the only reason is that the store has not been read since the process began.
	Ready() error
	// PreparePort makes the veth pair and the switch port of an endpoint, with the container's end in the
	// network namespace of descriptor netns. The endpoint need not be in the store
	// yet. It is idempotent.
	PreparePort(ctx context.Context, endpointID string, netns int) (drivers.Port, error)
	// Await returns when the cache of the agent has the endpoint as of revision
	// or later. The result has its records, but no port.
	Await(ctx context.Context, endpointID string, revision int64) (Attachment, error)
	// Attach returns when the flows of the endpoint, as of revision or
	// later, are in the switch.
	Attach(ctx context.Context, endpointID string, revision int64) (Attachment, error)
	// Detach removes port, link and flows; an unknown endpoint is not an error.
	Detach(ctx context.Context, endpointID string) error
	// Hold registers a container that an earlier process attached: its flows remain until Detach, even if the store
	// loses its records. It may be called again with more fields of the attachment.
	Hold(Attachment)
	// Unannounced lists the held endpoints that are missing in the store.
	Unannounced() []string
	// Unclaimed lists, with their ports, the endpoints that the store has on this node and that are not held: those
	// that have existed for 10 minutes, and those of an earlier boot (ended). It returns none while another node is
	// registered with this node's label.
	Unclaimed(ended func(boot string) bool) []Attachment
}

// Attachment is a programmed endpoint, with its port, record and network.
type Attachment = agent.Attachment
