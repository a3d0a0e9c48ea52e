package testbed

import (
	"context"
	"crypto/sha512"
	"fmt"
	"path/filepath"
)

// ContainerID returns the container id that cnitool passes for the pod to netplugin, and so to the name server.
func (p *Pod) ContainerID() string {
	digest := sha512.Sum512([]byte(p.netns()))
	return fmt.Sprintf("cnitool-%x", digest[:10])
}

// AttachDirectly makes the plugin itself carry out an ADD with labels of the container, such as "app=web,tier=1",
// in CNI_ARGS, which runtimes may set and cnitool does not support. All other commands for the pod are run by
// cnitool as usual.
func (p *Pod) AttachDirectly(ctx context.Context, labels string) error {
	const conf = `{"cniVersion":"1.1.0","name":"` + networkName + `","type":"contivk8s"}`
	out, err := p.Node.Run(ctx, "env", "CNI_COMMAND=ADD", "CNI_CONTAINERID="+p.ContainerID(), "CNI_NETNS="+p.netns(), "CNI_IFNAME=eth0",
		"CNI_PATH="+p.Node.bed.Bin, "CNI_ARGS="+p.cniArgs()+";IO_CONTIV_LABELS="+labels,
		"sh", "-ec", `printf %s "$1" | "$2"`, "sh", conf, filepath.Join(p.Node.bed.Bin, "contivk8s"))
	if err != nil {
		return err
	}
	return p.told(out)
}
