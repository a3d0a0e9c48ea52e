// Package attachment keeps a checkpoint of every interface the CNI server made
// or is making.
//
// A checkpoint exists before anything else does and is removed after
// everything else is gone, so that whatever moment the server dies at, the
// next one knows what there may be. It says all that a removal needs; neither
// the runtime's arguments nor the API server's answer of that day are needed
// again. One file per attachment, replaced atomically.
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

// State is how far an attachment has come.
type State string

// States. An adding attachment found at start belongs to a server that died;
// there is nobody left to tell its result, so it is deleted.
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
	Since       time.Time `json:"since"` // of the state

	Network string `json:"cniNetwork"` // name of the network configuration, for GC
	Netns   string `json:"netns"`
	NetnsID string `json:"netnsID"` // identity of the namespace behind the path
	// NetnsSeen: the path led there for the agent, too, and not only for who asked.
	NetnsSeen bool   `json:"netnsSeen,omitempty"`
	Digest    string `json:"digest"` // of the arguments: equal means the same ADD

	PodNamespace string `json:"podNamespace,omitempty"`
	PodName      string `json:"podName,omitempty"`
	PodUID       string `json:"podUID,omitempty"`
	// PlacedUID is what netmaster knows the pod by, if it has placed it.
	PlacedUID string `json:"placedUID,omitempty"`

	Tenant      string            `json:"tenant"`
	NetworkName string            `json:"network"`
	Group       string            `json:"group,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"` // of the container, for services
	Endpoint    string            `json:"endpoint"`         // identity within the network
	// HostPorts are ports of the node that lead into the container.
	HostPorts []mastercfg.HostPort `json:"hostPorts,omitempty"`
	// KeepEndpoint: the endpoint turned out to be another node's; it is not
	// ours to delete.
	KeepEndpoint bool `json:"keepEndpoint,omitempty"`
	// Denied: the node was not given the endpoint. If it may not delete it either,
	// it is somebody else's, or there is none.
	Denied bool `json:"denied,omitempty"`

	// Stored is what the store had when the container was attached. The
	// container is served with it while the store has lost it.
	Stored *Stored `json:"stored,omitempty"`

	HostLink string       `json:"hostLink,omitempty"` // switch side of the link
	Link     podlink.Spec `json:"link,omitzero"`      // the container's side
	// Result is our part of the CNI result, in the newest version.
	Result json.RawMessage `json:"result,omitempty"`
}

// Stored are the records an endpoint is served with.
type Stored struct {
	Endpoint mastercfg.CfgEndpointState `json:"endpoint"`
	Network  mastercfg.CfgNetworkState  `json:"network"`
	VRF      uint16                     `json:"vrf"` // of the tenant
}

// Attachment is what the record is about.
func (r *Record) Attachment() cniwire.Attachment {
	return cniwire.Attachment{ContainerID: r.ContainerID, IfName: r.IfName}
}

// EndpointID is the id of the endpoint in the store and in the switch.
func (r *Record) EndpointID() string {
	return mastercfg.EndpointID(mastercfg.NetworkID(r.Tenant, r.NetworkName), r.Endpoint)
}
