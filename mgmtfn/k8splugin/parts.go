package k8splugin

import (
	"context"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
)

// Master allocates addresses and keeps the endpoint records of the cluster.
type Master interface {
	// CreateEndpoint is idempotent by container. The revision is that of the
	// store in which the endpoint is visible.
	CreateEndpoint(ctx context.Context, r mastercfg.CreateEndpointRequest) (mastercfg.CfgEndpointState, int64, error)
	// DeleteEndpoint answers fault.NotFound for an endpoint that is not there.
	DeleteEndpoint(ctx context.Context, r mastercfg.DeleteEndpointRequest) error
}

// Datapath is this node's switch, as the agent runs it.
type Datapath interface {
	// Ready tells why containers cannot be attached at the moment. An error
	// with a method PodsAffected() bool says whether attached ones suffer, too.
	// One with a method StoreUnread() bool says whether the only reason is that
	// the store has not been read since the process began; the switch answers.
	Ready() error
	// PreparePort makes the link and switch port of an endpoint the store
	// need not know yet, the container's end in the network namespace behind
	// the descriptor. It is idempotent.
	PreparePort(ctx context.Context, endpointID string, netns int) (drivers.Port, error)
	// Await returns when the endpoint of the store at revision or later is
	// known here, with its records and without a port.
	Await(ctx context.Context, endpointID string, revision int64) (Attachment, error)
	// Attach returns when the endpoint, as it is in the store at revision or
	// later, is programmed.
	Attach(ctx context.Context, endpointID string, revision int64) (Attachment, error)
	// Detach removes port, link and flows; an unknown endpoint is no error.
	Detach(ctx context.Context, endpointID string) error
	// Hold tells of a container that an earlier run attached: it is served
	// until Detach, whatever becomes of its records in the store. It is told
	// again when more is known of it.
	Hold(Attachment)
	// Unannounced lists the endpoints held that the store does not know.
	Unannounced() []string
	// Unclaimed lists the endpoints that the store has had on this node for
	// long, or since a boot that has ended, and nobody has held, with their
	// ports; none while another node has this one's label.
	Unclaimed(ended func(boot string) bool) []Attachment
}

// Attachment is a programmed endpoint, with its port, record and network.
type Attachment = agent.Attachment
