package k8splugin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
)

// call is a request that was parsed and validated.
type call struct {
	cniwire.Request
	id     cniwire.Attachment
	args   netconf.Args
	conf   *netconf.Conf
	wanted netconf.Wanted // requested addresses, for ADD
	passed *os.File       // the container's network namespace; nil: only its path is known
}

// needs are the parts of a request that a command uses.
type needs struct {
	attachment bool
	netns      bool
	conf       bool
}

var commandNeeds = map[string]needs{
	cniwire.Add:    {attachment: true, netns: true, conf: true},
	cniwire.Check:  {attachment: true, netns: true, conf: true},
	cniwire.Del:    {attachment: true},
	cniwire.GC:     {conf: true},
	cniwire.Status: {},
}

// newCall validates the parts of a request that its command needs.
func newCall(r cniwire.Request) (*call, error) {
	need, ok := commandNeeds[r.Command]
	if !ok {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("unknown CNI_COMMAND: %q", r.Command), "")
	}
	c := &call{Request: r, id: r.Attachment(), args: netconf.ParseArgs(r.Args)}
	if need.attachment {
		if err := c.id.Validate(); err != nil {
			return nil, err
		}
	}
	if need.netns && r.Netns == "" {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "CNI_NETNS is missing", "")
	}
	if need.conf {
		conf, err := netconf.Parse(r.Stdin)
		if err != nil {
			return nil, err
		}
		c.conf = conf
	}
	if r.Command == cniwire.Add {
		wanted, err := netconf.ReadWanted(c.conf, c.args)
		if err != nil {
			return nil, err
		}
		c.wanted = wanted
	}
	return c, nil
}

// endpoint returns the id of the call's endpoint within its network.
func (c *call) endpoint(mode Mode) (string, error) {
	id := c.ContainerID
	if infra := c.args[netconf.InfraContainerID]; mode == Kubernetes && infra != "" {
		if err := utils.ValidateContainerID(infra); err != nil {
			return "", types.NewError(types.ErrInvalidEnvironmentVariables,
				fmt.Sprintf("CNI_ARGS: %s %q is no container id", netconf.InfraContainerID, infra), "")
		}
		id = infra
	}
	if c.IfName != firstInterface {
		id += "@" + c.IfName
	}
	return id, nil
}

// firstInterface is the name that container runtimes give to the interface that every container has.
const firstInterface = "eth0"

// digest returns the same value for two ADDs with the same parameters: all that the outcome depends on, apart from
// the attachment itself. The previous result is not included; it is merged into each answer anew.
func (c *call) digest(namespaceID string) (string, error) {
	conf := *c.conf
	conf.CNIVersion, conf.PrevResult = "", nil
	conf.ValidAttachments, conf.ValidAttachmentsOld = nil, nil
	data, err := json.Marshal(struct {
		Netns, ID string
		Args      netconf.Args
		Conf      netconf.Conf
	}{c.Netns, namespaceID, c.args, conf})
	if err != nil {
		return "", fmt.Errorf("digest of %s: %w", c.id, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// openNetns opens the container's network namespace: that of the descriptor passed with the request, since its
// path may be valid only in the mount namespace of the runtime; without a descriptor, the one at the path.
func (c *call) openNetns() (*podlink.Namespace, error) {
	if c.passed != nil {
		return podlink.Dup(c.passed, c.Netns)
	}
	return podlink.Open(c.Netns)
}
