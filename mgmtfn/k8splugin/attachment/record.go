// Package attachment maintains a checkpoint of every interface that the CNI server has made or is making.
//
// A checkpoint is written before the first effect and removed after everything else, so that after a crash at any
// time the next server knows what may exist. It has all that the removal needs; the runtime's arguments and the
// API server's response from that time are not needed again. There is one file per attachment, replaced
// atomically.
//
//	(no file) --> adding --> ready --> deleting --> (no file)
//	                 \________________/
package attachment

import (
	"encoding/json"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// State is the state of an attachment.
type State string

// States. An adding attachment found at the start is of a server that died; nobody waits for its result, so it is
// deleted.
const (
	Adding   State = "adding"
	Ready    State = "ready"
	Deleting State = "deleting"
)

// Record is the checkpoint of one attachment.
type Record struct {
	ContainerID string    `json:"containerID"`
	IfName      string    `json:"ifname"`
	State       State     `json:"state"`
	Since       time.Time `json:"since"` // when the state was entered

	Network string `json:"cniNetwork"` // name of the network configuration, for GC
	Netns   string `json:"netns"`
	NetnsID string `json:"netnsID"` // identity of the namespace at the path
	// NetnsSeen: the path refers to this namespace for the agent, too, and not only for the runtime.
	NetnsSeen bool   `json:"netnsSeen,omitempty"`
	Digest    string `json:"digest"` // of the arguments: equal means the same ADD

	PodNamespace string `json:"podNamespace,omitempty"`
	PodName      string `json:"podName,omitempty"`
	PodUID       string `json:"podUID,omitempty"`
	// PlacedUID is the UID of the pod at netmaster, if netmaster has placed it.
	PlacedUID string `json:"placedUID,omitempty"`

	Tenant      string            `json:"tenant"`
	NetworkName string            `json:"network"`
	Group       string            `json:"group,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"` // of the container, for services
	Endpoint    string            `json:"endpoint"`         // id within the network
	// HostPorts are the ports of the node that are forwarded to the container.
	HostPorts []mastercfg.HostPort `json:"hostPorts,omitempty"`
	// KeepEndpoint: the endpoint belongs to another node, and must not be deleted.
	KeepEndpoint bool `json:"keepEndpoint,omitempty"`
	// Denied: netmaster refused the endpoint to this node. If it refuses the deletion, too, the endpoint belongs to
	// another owner or does not exist.
	Denied bool `json:"denied,omitempty"`

	// Stored are the records in the store when the container was attached. They are used while the store has lost the
	// endpoint.
	Stored *Stored `json:"stored,omitempty"`

	HostLink string       `json:"hostLink,omitempty"` // switch side of the link
	Link     podlink.Spec `json:"link,omitzero"`      // the container's side
	// Result is this plugin's part of the CNI result, in the newest version.
	Result json.RawMessage `json:"result,omitempty"`
}

// Stored are the records that the datapath needs for an endpoint.
type Stored struct {
	Endpoint mastercfg.CfgEndpointState `json:"endpoint"`
	Network  mastercfg.CfgNetworkState  `json:"network"`
	VRF      uint16                     `json:"vrf"` // of the tenant
}

// Attachment returns the attachment of the record.
func (r *Record) Attachment() cniwire.Attachment {
	return cniwire.Attachment{ContainerID: r.ContainerID, IfName: r.IfName}
}

// EndpointID returns the id of the endpoint in the store and in the switch.
func (r *Record) EndpointID() string {
	return mastercfg.EndpointID(mastercfg.NetworkID(r.Tenant, r.NetworkName), r.Endpoint)
}
