package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Node is a machine with Open vSwitch and the daemons of a cluster node.
type Node struct {
	*machine
	Name   string // node1, node2, ...
	MgmtIP string
	VTEPIP string

	uplinks   int
	first     bool // its switch, see Config
	reader    bool // see Config
	bed       *Bed
	ovsdb     *Process
	vswitchd  *Process
	netmaster *Process
	netplugin *Process
	ahead     time.Duration // of the daemons' clock when they start, relative to the machine's
}

// linkScript connects a node to the fabric; it runs in the fabric's network.
const linkScript = `
ip link add "$1-mgmt" type veth peer name eth0 netns "$2"
ip link add "$1-vtep" type veth peer name uplink netns "$2"
ip link set "$1-mgmt" master mgmt up
ip link set "$1-vtep" master vtep up`

// addressScript adds a node's address. An IPv6 address is usable at once, without duplicate address detection.
const addressScript = `
case $1 in *:*) set -- "$1" nodad;; esac
ip addr add "$@" dev eth0
ip link set eth0 up
ip link set uplink up`

// bridgeScript adds the tunnel address where the userspace datapath finds it.
const bridgeScript = `
mac=$(cat /sys/class/net/uplink/address)
ovs-vsctl --timeout=20 --may-exist add-br br-phy -- set bridge br-phy datapath_type=netdev other-config:hwaddr="$mac" -- --may-exist add-port br-phy uplink
case $1 in *:*) set -- "$1" nodad;; esac
ip addr replace "$@" dev br-phy
ip link set br-phy up`

func (b *Bed) newNode(number int) *Node {
	return &Node{
		Name:   "node" + strconv.Itoa(number),
		MgmtIP: hostIn(b.underlay.mgmt, number).String(),
		VTEPIP: hostIn(b.underlay.vtep, number).String(),
		bed:    b,
	}
}

func (b *Bed) startNode(ctx context.Context, number int, cfg Config) (_ *Node, err error) {
	n := b.newNode(number)
	if n.machine, err = startMachine(ctx, n.Name, filepath.Join(b.Dir, n.Name), cfg.Detach); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.stop())
		}
	}()
	if err = b.fabric.inNetwork(ctx, linkScript, n.Name, strconv.Itoa(n.pid)); err != nil {
		return nil, err
	}
	if cfg.Confined {
		if _, err = n.Run(ctx, "systemd-sysusers", n.unit("contiv.sysusers")); err != nil {
			return nil, err
		}
	}
	n.first, n.reader = cfg.First, cfg.Readers
	for n.uplinks < cfg.Uplinks {
		n.uplinks++
		if err = b.Outside.connect(ctx, n, n.uplinks); err != nil {
			return nil, err
		}
	}
	if _, err = n.Run(ctx, "sh", "-ec", addressScript, "sh", withLength(n.MgmtIP, b.underlay.mgmt)); err != nil {
		return nil, err
	}
	if !cfg.Bare {
		if err = n.StartOVS(ctx); err != nil {
			return nil, err
		}
		if err = n.JoinTunnels(ctx); err != nil {
			return nil, err
		}
	}
	return n, n.writeCNIConfig(ctx)
}

// At returns the node's management address with a port, of either IP family.
func (n *Node) At(port int) string { return net.JoinHostPort(n.MgmtIP, strconv.Itoa(port)) }

// JoinTunnels adds the address of the node's tunnel end to its switch. It is called again for a new switch.
func (n *Node) JoinTunnels(ctx context.Context) error {
	_, err := n.Run(ctx, "sh", "-ec", bridgeScript, "sh", withLength(n.VTEPIP, n.bed.underlay.vtep))
	return err
}

// cniDir is the directory of a CNI runtime's network configuration for all pods.
const cniDir = "/etc/cni/net.d"

// writeCNIConfig installs the network configuration a CNI runtime reads.
func (n *Node) writeCNIConfig(ctx context.Context) error { return n.writeCNI(ctx, cniDir, "") }

// writeCNI writes a network configuration; args are additional members of its plugin.
func (n *Node) writeCNI(ctx context.Context, dir, args string) error {
	_, err := n.Run(ctx, "sh", "-ec", `mkdir -p "$1" && printf %s "$2" > "$1/10-contiv.conflist"`, "sh", dir,
		`{"cniVersion":"1.1.0","name":"`+networkName+`","plugins":[{"type":"contivk8s"`+args+`}]}`)
	return err
}

// firstInTurn gives a shell, and what it executes, the priority that Debian's scripts give the switch: a userspace
// datapath that waits for a processor because of the test's load would lose packets. The kernel weighs sessions
// first, if it has autogroups.
const firstInTurn = `
renice -n -10 -p $$ >/dev/null || :
[ ! -e /proc/self/autogroup ] || echo -10 2>/dev/null > /proc/self/autogroup || :`

// StartOVS starts the node's database and switch and waits until they answer. It also works if the switch was
// stopped or killed.
func (n *Node) StartOVS(ctx context.Context) (err error) {
	if n.ovsdb == nil || n.ovsdb.Exited() {
		if n.ovsdb, err = n.Start("ovsdb-server", "sh", "-ec", `
[ -e /etc/openvswitch/conf.db ] || { mkdir -p /etc/openvswitch; ovsdb-tool create /etc/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema; }
rm -f /etc/openvswitch/.conf.db.~lock~
exec ovsdb-server /etc/openvswitch/conf.db --remote=punix:/run/openvswitch/db.sock --pidfile=/run/openvswitch/ovsdb-server.pid`); err != nil {
			return err
		}
		if _, err := n.retry(ctx, "ovs-vsctl", "--timeout=5", "--no-wait", "init"); err != nil {
			return err
		}
	}
	if n.vswitchd == nil || n.vswitchd.Exited() {
		if n.vswitchd, err = n.Start("ovs-vswitchd", append([]string{"sh", "-ec", `
export MALLOC_TRIM_THRESHOLD_=268435456 # docs/operations.md, Open vSwitch
` + firstInTurn + `
exec "$@"`, "sh"}, n.Prompt(n.vswitchdCommand()...)...)...); err != nil {
			return err
		}
	}
	_, err = n.retry(ctx, "ovs-appctl", "--timeout=5", "version")
	return err
}

func (n *Node) vswitchdCommand() []string {
	command := []string{"ovs-vswitchd", "unix:/run/openvswitch/db.sock", "--pidfile=/run/openvswitch/ovs-vswitchd.pid"}
	if !n.reader {
		command = append(command, "--disable-system-route") // docs/operations.md, Open vSwitch
	}
	return command
}

// Prompt returns a command line that has priority over everything else if the switches of the bed do, see Config.
// Programs that answer counted datagrams need it as well: datagrams that queued while such a program waited for a
// processor would reach the switch all at once, and the socket of a port has room for some 270 packets.
func (n *Node) Prompt(args ...string) []string {
	if n.first {
		return append([]string{"chrt", "--rr", "1"}, args...)
	}
	return args
}

// KillVSwitchd kills the switch with SIGKILL.
func (n *Node) KillVSwitchd() error { return n.vswitchd.Kill() }

// KillOVSDB kills the database server with SIGKILL.
func (n *Node) KillOVSDB() error { return n.ovsdb.Kill() }

// retry repeats a command until it succeeds; on failure it returns the last error.
func (n *Node) retry(ctx context.Context, args ...string) (out string, err error) {
	err = within(ctx, startLimit, func() error {
		var err error
		out, err = n.Run(ctx, args...)
		return err
	})
	return out, err
}

// LogFile returns the file with the standard error of a program of the machine.
func (m *machine) LogFile(program string) string {
	return filepath.Join(m.dir, "log", program+".log")
}

func (m *machine) openLog(program string) (*os.File, error) {
	return os.OpenFile(m.LogFile(program), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// Tool returns the path of one of the built programs.
func (n *Node) Tool(name string) string { return filepath.Join(n.bed.Bin, name) }

// logTail is how much of a log is shown, in bytes.
const logTail = 4000

// DumpLogs prints the end of every log of the bed, to find out why a run failed.
func (b *Bed) DumpLogs(out io.Writer) {
	logs, _ := filepath.Glob(filepath.Join(b.Dir, "*", "log", "*.log")) // the pattern is valid
	for _, path := range logs {
		data, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(out, err)
			continue
		}
		if len(data) > 0 {
			fmt.Fprintf(out, "--- %s\n%s\n", path, data[max(0, len(data)-logTail):])
		}
	}
}
