// Package cniwire is the protocol between the CNI program and the CNI server.
//
// The program turns one invocation by a container runtime into one Request, posted to PathV2 over the server's
// unix socket. The response body is what the runtime receives: with status 200 the CNI result (empty for commands
// without one), with any other status a CNI error {code, msg, details}.
//
// The package is linked into a program that runs for a few milliseconds, so it has few imports.
package cniwire

import (
	"encoding/json"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"
)

// Default locations of the server's socket and state.
const (
	DefaultSocket   = "/run/contiv/contiv-cni.sock"
	DefaultStateDir = "/var/lib/contiv/cni"
)

// Paths of the server.
const (
	PathV2 = "/cni/v2"
	// The first protocol, for nodes whose CNI program is older than the agent.
	PathAddPod = "/ContivCNI.AddPod"
	PathDelPod = "/ContivCNI.DelPod"
)

// MaxBody limits a request and a response, in bytes: a network configuration with its previous result, or the list
// of valid attachments of a large node.
const MaxBody = 1 << 20

// maxContainerID keeps the file name of an attachment below the 255 bytes that file systems allow.
const maxContainerID = 200

// Commands of the CNI specification that reach the server.
const (
	Add    = "ADD"
	Del    = "DEL"
	Check  = "CHECK"
	GC     = "GC"
	Status = "STATUS"
)

// Request is one invocation: the CNI environment and the network configuration.
type Request struct {
	Command     string          `json:"command"`
	ContainerID string          `json:"containerID"`
	Netns       string          `json:"netns"`
	IfName      string          `json:"ifname"`
	Args        string          `json:"args"`
	Path        string          `json:"path"`
	Stdin       json.RawMessage `json:"stdin"`
}

// Attachment identifies one interface of one container, as the CNI
// specification does.
type Attachment struct {
	ContainerID string
	IfName      string
}

// Attachment returns the attachment that the request refers to.
func (r Request) Attachment() Attachment {
	return Attachment{ContainerID: r.ContainerID, IfName: r.IfName}
}

// Validate checks both parts against the rules of the CNI specification. A valid attachment is safe as a file
// name: neither part can contain a slash, and the container id begins with a letter or digit.
func (a Attachment) Validate() error {
	if err := utils.ValidateContainerID(a.ContainerID); err != nil {
		return err
	}
	if len(a.ContainerID) > maxContainerID {
		return types.NewError(types.ErrInvalidEnvironmentVariables,
			fmt.Sprintf("container id of %d characters, at most %d are allowed", len(a.ContainerID), maxContainerID), "")
	}
	if err := utils.ValidateInterfaceName(a.IfName); err != nil {
		return err
	}
	return nil
}

// String returns the attachment's name, "container@interface". It is unique: a valid container id contains no "@".
func (a Attachment) String() string { return a.ContainerID + "@" + a.IfName }
