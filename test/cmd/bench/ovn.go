package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// ovn is Debian's OVN on the nodes of a bed: its databases and northd on the first node, a controller on each,
// tunnels between the same addresses as the project's. Commands are sent to the daemon of its command line tool
// and wait for all nodes.
type ovn struct {
	bed *testbed.Bed
	ctl string // socket of that daemon
}

// ovnCentral starts databases, northd and the command line tool's daemon.
const ovnCentral = `
mkdir -p /run/ovn /var/log/ovn /etc/ovn
for db in nb sb; do
  ovsdb-tool create /etc/ovn/ovn$db.db /usr/share/ovn/ovn-$db.ovsschema
  ovsdb-server --detach --no-chdir --pidfile=/run/ovn/ovn${db}_db.pid --unixctl=/run/ovn/ovn${db}_db.ctl \
    --remote=punix:/run/ovn/ovn${db}_db.sock $([ $db = nb ] || echo --remote=ptcp:6642:$1) /etc/ovn/ovn$db.db
done
ovn-nbctl init
ovn-sbctl init
ovn-northd --detach --no-chdir --pidfile=/run/ovn/ovn-northd.pid
ovn-nbctl --detach --no-chdir --pidfile=/run/ovn/ovn-nbctl.pid`

// ovnHost adds a node to OVN.
const ovnHost = `
mkdir -p /run/ovn
ovs-vsctl --timeout=20 set open_vswitch . external-ids:system-id=$1 external-ids:ovn-remote=tcp:$2:6642 \
  external-ids:ovn-encap-type=geneve external-ids:ovn-encap-ip=$3 external-ids:ovn-bridge-datapath-type=netdev
ovn-controller --detach --no-chdir --pidfile=/run/ovn/ovn-controller.pid unix:/run/openvswitch/db.sock
timeout 20 sh -c 'until ovs-vsctl br-exists br-int; do :; done'`

// ovnPod creates a pod like the project's, with the largest MTU that Geneve permits.
const ovnPod = `
ip netns add "$1"
ip link add "$1-p" type veth peer name eth0 netns "$1"
ip link set "$1-p" mtu 1442 up
ip -n "$1" link set eth0 address "$2" mtu 1442 up
ip -n "$1" link set lo up
ip -n "$1" addr add "$3/24" dev eth0
ip netns exec "$1" ethtool -K eth0 tx off >/dev/null
ovs-vsctl --timeout=20 add-port br-int "$1-p" -- set interface "$1-p" external_ids:iface-id="$1"`

func startOVN(ctx context.Context, bed *testbed.Bed) (*ovn, error) {
	central := bed.Nodes[0]
	if _, err := central.Run(ctx, "which", "ovn-northd", "ovn-controller"); err != nil {
		return nil, fmt.Errorf("OVN is not installed; make bench-peers installs it: %w", err)
	}
	out, err := central.Run(ctx, "sh", "-ec", ovnCentral, "sh", central.MgmtIP)
	if err != nil {
		return nil, err
	}
	for _, n := range bed.Nodes {
		if _, err := n.Run(ctx, "sh", "-ec", ovnHost, "sh", n.Name, central.MgmtIP, n.VTEPIP); err != nil {
			return nil, err
		}
	}
	o := &ovn{bed, strings.TrimSpace(out)}
	return o, o.do(ctx, "ls-add", "net")
}

// do runs commands of ovn-nbctl, separated by "--", as one transaction, and waits until every node has the result.
func (o *ovn) do(ctx context.Context, commands ...string) error {
	_, err := o.bed.Nodes[0].Run(ctx, append([]string{"env", "OVN_NB_DAEMON=" + o.ctl, "ovn-nbctl", "--wait=hv", "--timeout=60"}, commands...)...)
	return err
}

// pods creates the pods. They cannot send with other source addresses, as in the project.
func (o *ovn) pods(ctx context.Context, place func(group string, number int) *testbed.Pod) error {
	host := 0
	for _, group := range peerGroups {
		members := []string{"--", "pg-add", group}
		var ports []string
		for i := range peerMembers {
			host++
			p := place(group, i)
			p.IP = netip.AddrFrom4([4]byte{10, 39, 0, byte(host)})
			mac := fmt.Sprintf("02:00:00:00:00:%02x", host)
			if _, err := p.Node.Run(ctx, "sh", "-ec", ovnPod, "sh", p.Name, mac, p.IP.String()); err != nil {
				return err
			}
			who := mac + " " + p.IP.String()
			ports = append(ports, "--", "lsp-add", "net", p.Name, "--", "lsp-set-addresses", p.Name, who, "--", "lsp-set-port-security", p.Name, who)
			members = append(members, p.Name)
		}
		if err := o.do(ctx, append(ports[1:], members...)...); err != nil {
			return err
		}
	}
	return nil
}

// acls returns the commands for a rule like the project's: stateless, so one for packets from front to db and one
// for the opposite direction. what has SIDE where the port's side is.
func acls(command, priority, what string, action ...string) (commands []string) {
	for _, way := range []struct{ direction, ends, side string }{
		{"to-lport", "outport == @db && ip4.src == $front_ip4 && ", "dst"},
		{"from-lport", "inport == @db && ip4.dst == $front_ip4 && ", "src"},
	} {
		match := way.ends + strings.ReplaceAll(what, "SIDE", way.side)
		commands = append(append(commands, "--", command, "db", way.direction, priority, match), action...)
	}
	return commands
}

func (o *ovn) fill(ctx context.Context, rules int) error {
	var commands []string
	for i := range rules {
		commands = append(commands, acls("acl-add", "1000", fmt.Sprint("tcp.SIDE == ", firstPort+i), "drop")...)
	}
	return o.do(ctx, commands[1:]...)
}

func (o *ovn) empty(ctx context.Context) error { return o.do(ctx, "acl-del", "db") }

func (o *ovn) add(ctx context.Context) error {
	return o.do(ctx, acls("acl-add", "1001", "udp", "drop")[1:]...)
}

func (o *ovn) remove(ctx context.Context) error {
	return o.do(ctx, acls("acl-del", "1001", "udp")[1:]...)
}

func (o *ovn) bridge() string { return "br-int" }

func (o *ovn) processes() []string {
	return []string{"ovn-nbctl", "ovn-northd", "ovn-controller", "ovsdb-server", "ovs-vswitchd"}
}
