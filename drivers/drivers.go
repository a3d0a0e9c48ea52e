// Package drivers is the border between the agent, which knows what the
// cluster wants, and a driver, which knows how to make a switch do it.
//
// The border is declarative. The agent hands over objects (networks, endpoints,
// flood sets, rules) and takes them away again; it never says how. The driver
// keeps the whole set, computes the flows each object needs, and makes the switch
// equal to them: now, after the switch restarted, and when somebody changed it
// behind our back. Objects are values; Equal compares them.
//
// Beside it, packets are exchanged with the switch: what flows send to the agent,
// and what the agent sends.
package drivers

import (
	"context"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Change is a step of the wanted datapath. Removals are applied first. A change
// of up to some thousand objects is programmed as one atomic bundle, so that no
// packet sees half of it; a larger one in an order in which no packet is allowed
// that was denied before and after, nor denied that was allowed.
type Change struct {
	Replace bool // forget everything else: the change is the whole wanted state
	Remove  []pipeline.Key
	Set     []pipeline.Object
	// Left are endpoints that exist no more, here or elsewhere, as they were given last, and those that
	// have other addresses now, with the ones they had. When their flows are out, the connections that the
	// switch tracks of them are ended, a few at a time; nobody waits for that. A switch that cannot lets
	// them end when they are not used any more.
	Left []pipeline.Endpoint
	// Known are, with Replace, the ids of all endpoints that exist, also of those that are not set. The connections
	// of others that the switch has flows of are ended like those of Left; nil: nobody knows who exists, and none are.
	Known []string
}

// Port is a local endpoint's attachment to the switch.
type Port struct {
	EndpointID string
	HostLink   string // stays in the switch: vvportN
	PodLink    string // the pod's end as it was made: vportN
	OFPort     uint32 // OpenFlow number; 0: the switch has not given one yet
	MTU        int    // bytes, for the pod's end of the link
}

// Status is what a driver says of itself.
type Status struct {
	Connected bool      // the switch answers
	InSync    bool      // every wanted object is in the switch
	Lost      bool      // the switch has nothing of ours, as after its restart, and what it should have is not known yet
	Owes      time.Time // since when changes wait and the switch has taken none, but for the time in which it answered to something else; zero: none wait, but for what it does not take while it takes others
	Bridge    string    // name of the bridge
	Datapath  string    // "system" (kernel) or "netdev" (userspace)
	Flows     int       // flows we want in the switch
	Others    int       // flows of somebody else that are left alone, as nobody knows what they do
	Ports     int
	PortAdded bool // since the driver runs, an endpoint's port was added
	LastError string
	Conflicts []string // pairs of objects that want different flows for the same packets, such as endpoints with one address

	Uplinks map[string]string // links to the physical network: what is wrong with each, "" if nothing

	VXLAN, VLAN *Status // of a node with two bridges: theirs; nil: there is one
}

// Bridges are the statuses of the node's bridges.
func (s Status) Bridges() []Status {
	if s.VXLAN == nil || s.VLAN == nil {
		return []Status{s}
	}
	return []Status{*s.VXLAN, *s.VLAN}
}

// Count is a number of packets and of their bytes.
type Count struct{ Packets, Bytes uint64 }

// Counters are what the switch has counted for an object since its flows are
// there: of a local endpoint what it sent and received, of a rule what it
// decided about on this node, of a service what its providers exchanged with
// clients of this node.
type Counters struct {
	Sent, Received, Decided Count
	Served                  map[pipeline.Served]Count
}

// NetworkDriver programs a switch.
type NetworkDriver interface {
	// Run connects to the switch and keeps it equal to the wanted objects
	// until ctx is done. It leaves flows and ports in place when it returns:
	// traffic goes on without us. Nothing is written to the switch before the
	// first Change with Replace has been given.
	Run(ctx context.Context) error
	// Update changes the wanted objects and returns at once.
	Update(c Change)
	// Sync waits until the named objects are in the switch as the changes
	// given before the call say; none named: all objects. Its error says which
	// of them are not, because they make no sense or because the switch has
	// refused them, now or earlier; what is wrong with others is no concern of
	// the caller. An error of kind Unavailable says that nobody knows yet.
	Sync(ctx context.Context, keys ...pipeline.Key) error
	// AddPort makes the link and the switch port of an endpoint and waits for
	// its OpenFlow number. The pod's end is made in the network namespace
	// behind the descriptor podNetNS, because moving it there later would cost
	// more than all the rest; with 0 it is made beside the host's end.
	// AddPort is idempotent: an endpoint's port is found again by its id, also
	// after a restart, and is then left where it is. The encapsulation is that of
	// the endpoint's network; one that no bridge serves is Unsupported.
	AddPort(ctx context.Context, encap pipeline.Encap, endpointID string, podNetNS int) (Port, error)
	// FindPort is AddPort for a port that is there; if it is not, the error is
	// NotFound and nothing is made.
	FindPort(ctx context.Context, endpointID string) (Port, error)
	// RemovePort removes port and link; an unknown endpoint is no error.
	RemovePort(ctx context.Context, endpointID string) error
	// PortUsed tells whether the other end of an endpoint's link is in a network namespace
	// other than the switch's, as a pod's is while the pod lives; false of a port without a link.
	PortUsed(endpointID string) (bool, error)
	// Ports lists the endpoint ports in the switch, by endpoint id.
	Ports() []Port
	// Counters returns what the switch has counted, by object; an object that
	// has no flows has counted nothing. The switch adds to the counters about
	// once a second. They survive a restart of the driver and start from zero
	// with the switch.
	Counters(ctx context.Context, keys ...pipeline.Key) (map[pipeline.Key]Counters, error)
	// Status never blocks.
	Status() Status
}

// PacketBus exchanges packets with the switch. A driver is one.
type PacketBus interface {
	// Packets returns the channel on which the packets of a class arrive, the
	// same one whenever it is asked for; it is never closed. Some dozen wait
	// there for their reader. What comes while so many wait takes the place of the
	// oldest. That one, and what comes before somebody has asked for the class, is
	// dropped and counted.
	Packets(class pipeline.PacketClass) <-chan pipeline.Packet
	// Send has the switch do the actions on a packet and waits until it has.
	// The error is of kind Unavailable while the switch is not connected.
	Send(ctx context.Context, packet openflow.PacketOut) error
	// PacketsDropped counts the packets of a class that were dropped here.
	PacketsDropped(class pipeline.PacketClass) uint64
}
