// Package drivers is the interface between the agent, which knows the wanted state of the cluster, and a driver,
// which knows how to program a switch.
//
// The interface is declarative. The agent sets and removes objects (networks, endpoints, flood sets, rules); it
// never says how. The driver keeps the whole set, computes the flows of each object, and makes the switch equal to
// them: now, after the switch has restarted, and when another program has changed its flows. Objects are values;
// Equal compares them.
//
// In addition, packets are exchanged with the switch: those that flows send to the agent, and those that the agent
// sends.
package drivers

import (
	"context"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Change is a change of the wanted objects. Removals are applied first. A change of up to some thousand objects is
// programmed as one atomic bundle, so that no packet sees half of it; a larger one is programmed in an order in
// which no packet is allowed that was denied before and after, or denied that was allowed before and after.
type Change struct {
	Replace bool // remove all other objects: the change is the whole wanted state
	Remove  []pipeline.Key
	Set     []pipeline.Object
	// Left are endpoints that no longer exist, here or on other nodes, as they were last set, and endpoints with new
	// addresses, with their old ones. Once their flows are removed, the driver ends their tracked connections in the
	// switch, a few at a time and without anything waiting for it. In a switch that cannot do that they expire once
	// they are idle.
	Left []pipeline.Endpoint
	// Known are, with Replace, the ids of all existing endpoints, also of those that are not set. Tracked connections
	// of other endpoints for which the switch has flows are ended like those of Left. Nil: the existing endpoints are
	// not known, and none are ended.
	Known []string
}

// Port is a local endpoint's attachment to the switch.
type Port struct {
	EndpointID string
	HostLink   string // stays in the switch: vvportN
	PodLink    string // the pod's end as it was made: vportN
	OFPort     uint32 // OpenFlow number; 0: not assigned yet by the switch
	MTU        int    // bytes, for the pod's end of the link
}

// Status is the state of a driver.
type Status struct {
	Connected bool // the switch answers
	InSync    bool // every wanted object is in the switch
	Lost      bool // the switch has none of our flows, as after its restart, and the wanted ones are not known yet
	// Owes is since when changes are pending and the switch has accepted none, less the time in which it answered other
	// requests; zero: none are pending, except those that it refuses while it accepts others.
	Owes      time.Time
	Bridge    string // name of the bridge
	Datapath  string // "system" (kernel) or "netdev" (userspace)
	Flows     int    // flows wanted in the switch
	Others    int    // flows of unknown origin and purpose, which are left alone
	Ports     int
	PortAdded bool // an endpoint's port was added since the driver started
	LastError string
	Conflicts []string // pairs of objects that want different flows for the same packets, such as endpoints with one address

	Uplinks map[string]string // links to the physical network: the fault of each, "" if none

	VXLAN, VLAN *Status // on a node with two bridges, the status of each; nil: one bridge
}

// Bridges returns the statuses of the node's bridges.
func (s Status) Bridges() []Status {
	if s.VXLAN == nil || s.VLAN == nil {
		return []Status{s}
	}
	return []Status{*s.VXLAN, *s.VLAN}
}

// Count is a number of packets and of their bytes.
type Count struct{ Packets, Bytes uint64 }

// Counters are the counts of the switch for an object since its flows were added: for a local endpoint the packets
// it has sent and received, for a rule the packets that it has decided on this node, for a service the packets
// between its providers and clients of this node.
type Counters struct {
	Sent, Received, Decided Count
	Served                  map[pipeline.Served]Count
}

// NetworkDriver programs a switch.
type NetworkDriver interface {
	// Run connects to the switch and keeps it equal to the wanted objects until ctx is done. When it returns, flows
	// and ports remain, and traffic continues. Nothing is written to the switch before the first Change with Replace.
	Run(ctx context.Context) error
	// Update changes the wanted objects and returns at once.
	Update(c Change)
	// Sync waits until the named objects (none named: all objects) are in the switch as of the changes passed before
	// the call. Its error names those that are not, because they are invalid or because the switch has refused them,
	// now or earlier; faults of other objects are not reported. An error of kind Unavailable says that the state of
	// the switch is not known yet.
	Sync(ctx context.Context, keys ...pipeline.Key) error
	// AddPort creates the link and the switch port of an endpoint and waits for its OpenFlow number. The pod's end of
	// the link is created in the network namespace of descriptor podNetNS, because moving it there later would cost
	// more than everything else; with 0 it is created beside the host's end. AddPort is idempotent: it finds an
	// existing port by the endpoint's id, also after a restart, and leaves it where it is. encap is the encapsulation
	// of the endpoint's network; the error is Unsupported if no bridge serves it.
	AddPort(ctx context.Context, encap pipeline.Encap, endpointID string, podNetNS int) (Port, error)
	// FindPort returns the existing port of an endpoint; fault.NotFound if there is none. It creates nothing.
	FindPort(ctx context.Context, endpointID string) (Port, error)
	// RemovePort removes port and link; it returns nil for an unknown endpoint.
	RemovePort(ctx context.Context, endpointID string) error
	// PortUsed reports whether the other end of an endpoint's link is in a network namespace other than the switch's,
	// as a pod's is while the pod lives; false for a port without a link.
	PortUsed(endpointID string) (bool, error)
	// Ports lists the endpoint ports in the switch, by endpoint id.
	Ports() []Port
	// Counters returns the counters of the switch by object, zero for an object without flows. The switch updates
	// them about once a second. They survive a restart of the driver and start from zero with the switch.
	Counters(ctx context.Context, keys ...pipeline.Key) (map[pipeline.Key]Counters, error)
	// Status never blocks.
	Status() Status
}

// PacketBus exchanges packets with the switch. A driver is one.
type PacketBus interface {
	// Packets returns the channel on which the packets of a class arrive, the same one on each call; it is never
	// closed. It buffers some dozen packets; when it is full, a new packet replaces the oldest one. Replaced packets,
	// and packets that arrive before the first call for the class, are dropped.
	Packets(class pipeline.PacketClass) <-chan pipeline.Packet
	// Send has the switch apply the actions to a packet and waits until it has. The error is of kind Unavailable
	// while the switch is not connected.
	Send(ctx context.Context, packet openflow.PacketOut) error
}
