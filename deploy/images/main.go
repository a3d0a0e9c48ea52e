// Command images builds the container images that deploy/kubernetes starts, without a container engine:
//
//	localhost/contiv/netplugin   the daemons, netctl, and the CNI plugins that a node gets
//	localhost/contiv/ovs         Open vSwitch of this machine, for nodes that have none
//
// With these names, a node that lacks an image does not pull one of the same name from a public registry.
//
// Its arguments are the folder of the built programs and the archive to write, which `ctr --namespace k8s.io
// images import` reads.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniinstall"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/imagefile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("want two arguments: the folder of the built programs, the archive to write")
	}
	tag := ":" + buildinfo.Get().Version
	return imagefile.Write(args[1], runtime.GOARCH,
		imagefile.Image{Names: []string{"localhost/contiv/netplugin" + tag}, Layers: []*imagefile.Layer{daemons(ctx, args[0])}},
		imagefile.Image{Names: []string{"localhost/contiv/ovs" + tag}, Layers: []*imagefile.Layer{openVSwitch(ctx)}},
	)
}

// daemons returns the layer with our programs and nft, which netplugin runs.
func daemons(ctx context.Context, bin string) *imagefile.Layer {
	l := base()
	for _, name := range []string{"netmaster", "netplugin", "netctl"} {
		l.Program("/usr/bin/"+name, filepath.Join(bin, name))
	}
	for _, name := range cniinstall.Plugins() {
		l.Program(filepath.Join(cniinstall.DefaultSource, name), filepath.Join(bin, name))
	}
	l.Tools(ctx, "nft")
	return l
}

// openVSwitch returns the layer with the switch, its tools, and a shell that starts it.
func openVSwitch(ctx context.Context) *imagefile.Layer {
	l := base()
	l.Tools(ctx, "sh", "ovsdb-server", "ovs-vswitchd", "ovsdb-tool", "ovs-vsctl", "ovs-appctl", "ovs-ofctl", "ovs-dpctl")
	l.File("/usr/share/openvswitch/vswitch.ovsschema", "/usr/share/openvswitch/vswitch.ovsschema")
	return l
}

// base returns the layer with the files that programs expect on any machine.
func base() *imagefile.Layer {
	l := imagefile.NewLayer()
	for _, dir := range []string{"/etc", "/usr", "/usr/bin", "/var", "/run"} {
		l.Dir(dir, 0o755)
	}
	l.Dir("/tmp", 0o1777)
	l.Link("/bin", "usr/bin")
	l.Link("/sbin", "usr/bin")
	l.Link("/var/run", "/run")
	l.Text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
	l.Text("/etc/group", "root:x:0:\n")
	return l
}
