// Package netconf parses the input of a CNI plugin: the network configuration on standard input and the CNI_ARGS
// variable.
//
// Neither is trusted, so every parser here returns a CNI error that names the problem, and is fuzzed. Unknown
// fields are ignored, as the CNI specification requires.
package netconf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

// PluginType is the name of the CNI program, and the only accepted IPAM type: addresses come from the network's
// own pool.
const PluginType = "contivk8s"

// Versions returns the supported versions of the CNI specification, oldest first. A configuration without a
// version has the first.
func Versions() []string {
	return []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}
}

// Conf is the network configuration of one plugin.
type Conf struct {
	CNIVersion string          `json:"cniVersion"`
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	MTU        int             `json:"mtu"` // 0: that of the network
	Tenant     string          `json:"tenant"`
	Network    string          `json:"network"`
	Group      string          `json:"group"`
	Socket     string          `json:"socket"`   // of the server
	StateDir   string          `json:"stateDir"` // where deletions are queued
	LogFile    string          `json:"logFile"`  // empty: standard error
	LogLevel   string          `json:"logLevel"` // debug: log successful commands, too
	Timeout    int             `json:"timeout"`  // seconds for an ADD, 0: 120
	IPAM       types.IPAM      `json:"ipam"`
	DNS        types.DNS       `json:"dns"`
	Args       Conventions     `json:"args"`
	Runtime    RuntimeConfig   `json:"runtimeConfig"`
	PrevResult json.RawMessage `json:"prevResult"`

	// Attachments that still exist, for GC. The second key is that of early drafts of the specification.
	ValidAttachments    []types.GCAttachment `json:"cni.dev/valid-attachments"`
	ValidAttachmentsOld []types.GCAttachment `json:"cni.dev/attachments"`
}

// Conventions is the "args" member as defined by the CNI conventions.
type Conventions struct {
	CNI struct {
		Labels []Label `json:"labels"`
	} `json:"cni"`
}

// Label is one label of the container.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// RuntimeConfig holds the supported dynamic capabilities. The bandwidth of a pod comes from its annotations, which
// netmaster follows: runtimes pass it once.
type RuntimeConfig struct {
	IPs []string `json:"ips"` // requested addresses, with or without prefix length
	Mac string   `json:"mac"` // requested hardware address; refused
	DNS struct {
		Servers  []string `json:"servers"`
		Searches []string `json:"searches"`
		Options  []string `json:"options"`
	} `json:"dns"`
	Annotations  map[string]string `json:"io.kubernetes.cri.pod-annotations"`
	PortMappings []PortMapping     `json:"portMappings,omitempty"` // not validated yet: some callers need only part of them
}

// PortMapping is a port of the host to be forwarded to the container.
type PortMapping struct {
	HostPort      int    `json:"hostPort"` // 0: none
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"` // empty: tcp
	HostIP        string `json:"hostIP"`   // empty: all addresses of the host
}

// Parse parses and validates a network configuration. Errors are of type *types.Error with the CNI code for the
// runtime.
func Parse(data []byte) (*Conf, error) {
	c := &Conf{}
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return nil, types.NewError(types.ErrDecodingFailure, "network configuration is no JSON object", "")
	}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, fmt.Sprintf("network configuration: %v", err), "")
	}
	if c.CNIVersion == "" {
		c.CNIVersion = "0.1.0" // the specification's default
	}
	if !slices.Contains(Versions(), c.CNIVersion) {
		return nil, types.NewError(types.ErrIncompatibleCNIVersion,
			fmt.Sprintf("network configuration %q: cniVersion %q is not supported", c.Name, c.CNIVersion),
			"supported: "+strings.Join(Versions(), ", "))
	}
	return c, c.check()
}

// check returns an error for settings that ADD could not honour.
func (c *Conf) check() error {
	invalid := func(format string, args ...any) error {
		return types.NewError(types.ErrInvalidNetworkConfig,
			fmt.Sprintf("network configuration %q: ", c.Name)+fmt.Sprintf(format, args...), "")
	}
	switch {
	case c.Name == "":
		return invalid("name is missing")
	case c.IPAM.Type != "" && c.IPAM.Type != PluginType:
		return invalid("ipam.type %q: addresses come from the contiv network, leave ipam out", c.IPAM.Type)
	case c.MTU != 0 && (c.MTU < minMTU || c.MTU > maxMTU):
		return invalid("mtu %d: want %d to %d", c.MTU, minMTU, maxMTU)
	case c.Timeout < 0 || c.Timeout > maxTimeout:
		return invalid("timeout %d: want 1 to %d seconds", c.Timeout, maxTimeout)
	}
	return nil
}

// Limits of numbers: the smallest MTU of IPv4, the largest of a link, and an hour.
const (
	minMTU     = 68
	maxMTU     = 65535
	maxTimeout = 3600
)

// Valid returns the attachments that GC must keep. A configuration without a list keeps none: that is how the CNI
// library encodes an empty list.
func (c *Conf) Valid() map[cniwire.Attachment]bool {
	valid := map[cniwire.Attachment]bool{}
	for _, a := range slices.Concat(c.ValidAttachments, c.ValidAttachmentsOld) {
		valid[cniwire.Attachment{ContainerID: a.ContainerID, IfName: a.IfName}] = true
	}
	return valid
}

// Resolver returns the DNS configuration for the result: the runtime's has precedence over the configuration's.
func (c *Conf) Resolver() types.DNS {
	dns := *c.DNS.Copy()
	if len(c.Runtime.DNS.Servers) > 0 {
		dns.Nameservers = c.Runtime.DNS.Servers
	}
	if len(c.Runtime.DNS.Searches) > 0 {
		dns.Search = c.Runtime.DNS.Searches
	}
	if len(c.Runtime.DNS.Options) > 0 {
		dns.Options = c.Runtime.DNS.Options
	}
	return dns
}
