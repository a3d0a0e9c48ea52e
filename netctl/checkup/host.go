package checkup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/utils/ports"
)

// Host checks whether this machine can run the daemons. They must not run on it yet: the daemonPorts have to be
// free.
func Host(ctx context.Context, report Report) {
	report.check("root", "run as root", "yes", unless(os.Geteuid() == 0, "user id is %d", os.Geteuid()))
	tool, err := exec.LookPath("ovs-vsctl")
	report.check("ovs installed", "install openvswitch-switch", tool, err)
	runDir := openvswitchRunDir()
	report.check("ovsdb-server", "start openvswitch-switch, or set OVS_RUNDIR", runDir, dials(ctx, filepath.Join(runDir, "db.sock")))
	report.check("ovs-vswitchd", "start openvswitch-switch, or set OVS_RUNDIR", runDir, runs(filepath.Join(runDir, "ovs-vswitchd.pid")))
	datapath, err := datapathType()
	report.check("datapath", "load the module openvswitch or tun", datapath, err)
	for _, p := range daemonPorts {
		err := p.free(ctx)
		report.check(fmt.Sprintf("port %s/%d", p.network, p.number), "see what listens there with ss -lnp; "+p.use, "free, "+p.use, err)
	}
}

// port is a port on which the daemons listen.
type port struct {
	network string
	number  int
	use     string
}

var daemonPorts = []port{
	{"tcp", ports.Netmaster, "used by netmaster"},
	{"tcp", ports.Agent, "used by netplugin"},
	{"tcp", ports.EtcdClient, "used by the embedded etcd for its clients"},
	{"tcp", ports.EtcdPeer, "used by the embedded etcd for its peers"},
	{"udp", ports.VXLAN, "used by vxlan"},
}

// free returns an error if another program uses the port.
func (p port) free(ctx context.Context) error {
	var config net.ListenConfig
	address := ":" + strconv.Itoa(p.number)
	if p.network == "udp" {
		c, err := config.ListenPacket(ctx, p.network, address)
		if err != nil {
			return err
		}
		return c.Close()
	}
	l, err := config.Listen(ctx, p.network, address)
	if err != nil {
		return err
	}
	return l.Close()
}

// openvswitchRunDir returns the directory of Open vSwitch's sockets.
func openvswitchRunDir() string {
	if dir := os.Getenv("OVS_RUNDIR"); dir != "" {
		return dir
	}
	return "/var/run/openvswitch"
}

func dials(ctx context.Context, socket string) error {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return c.Close()
}

// runs returns an error unless the process of a pid file runs.
func runs(pidFile string) error {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(text))); err != nil {
		return fmt.Errorf("%s: no such process: %w", pidFile, err)
	}
	return nil
}

// datapathType returns the type of datapath that Open vSwitch can use on this machine.
func datapathType() (string, error) {
	if _, err := os.Stat("/sys/module/openvswitch"); err == nil {
		return "kernel", nil
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return "", errors.New("neither the kernel's datapath nor /dev/net/tun, which the one in user space needs")
	}
	return "user space (the kernel has no module openvswitch loaded)", nil
}
