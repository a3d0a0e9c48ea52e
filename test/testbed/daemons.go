package testbed

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// The daemons' command lines: real flags, real addresses, nothing for tests only.

// StartNetmaster starts the node's netmaster with its embedded etcd member.
func (n *Node) StartNetmaster(extra ...string) (err error) {
	var peers []string
	for _, peer := range n.bed.Nodes {
		peers = append(peers, peer.Name+"="+peer.peerURL())
	}
	args := append([]string{"env", n.foundation()}, n.program("netmaster")...) // older ones do not know it as a flag
	args = append(args,
		"--mode", n.bed.mode, "--netmode", "vxlan", "--fwdmode", "routing",
		"--external-address", "0.0.0.0:9999",
		"--internal-address", n.At(9999),
		"--embedded-etcd", n.StoreDir(),
		"--embedded-etcd-name", n.Name,
		"--embedded-etcd-client-url", n.StoreURL(),
		"--embedded-etcd-peer-url", n.peerURL(),
		"--embedded-etcd-peers", strings.Join(peers, ","),
	)
	if n.bed.sealed {
		args = append(args, "--encrypt-values")
	}
	n.netmaster, err = n.startDaemon("netmaster", append(args, extra...))
	return err
}

// StartNetplugin starts the node's agent, with its first uplink unless others are named. It reaches
// the state through all netmasters in a secure bed, else the store, unless it is told how.
func (n *Node) StartNetplugin(extra ...string) (err error) {
	args := append(n.program("netplugin"),
		"--mode", n.bed.mode, "--netmode", "vxlan", "--fwdmode", "routing",
		"--host", n.Name, "--ctrl-ip", n.MgmtIP, "--vtep-ip", n.VTEPIP,
	)
	switch {
	case slices.Contains(extra, "--netmasters"), slices.Contains(extra, "--etcd-endpoints"):
	case n.bed.secure:
		args = append(args, "--netmasters", strings.Join(n.bed.MasterURLs(), ","))
	default:
		args = append(args, "--etcd-endpoints", strings.Join(n.bed.EtcdEndpoints(), ","))
	}
	if n.bed.secure {
		args = append(args, "--join-token-file", tokenFile("node"))
	}
	if n.uplinks > 0 && !slices.Contains(extra, "--vlan-uplinks") {
		args = append(args, "--vlan-uplinks", UplinkName(1))
	}
	n.netplugin, err = n.startDaemon("netplugin", append(args, extra...))
	return err
}

// program is the command that runs a daemon: the daemon itself, what confines it as its unit has it run, or what waits for its clock.
func (n *Node) program(name string) []string {
	switch {
	case n.bed.confined:
		return []string{n.Tool("confine"), n.unit(name + ".service"), n.Tool(name)}
	case n.ahead != 0:
		return standing(n.Tool(name))
	}
	return []string{n.Tool(name)}
}

// unit is a file of the daemons' units.
func (n *Node) unit(name string) string { return filepath.Join(n.bed.Bin, "../scripts/systemd", name) }

// StoreDir is where the node's netmaster has its member of the store.
func (n *Node) StoreDir() string {
	if n.bed.confined {
		return "/var/lib/contiv/netmaster/etcd"
	}
	return "/var/lib/contiv/etcd"
}

// Netmaster is the node's netmaster, nil before its start.
func (n *Node) Netmaster() *Process { return n.netmaster }

// Netplugin is the node's agent, nil before its start.
func (n *Node) Netplugin() *Process { return n.netplugin }

// WaitReady waits until the node's netplugin says that it can serve pods.
func (n *Node) WaitReady(ctx context.Context) error {
	if _, err := n.retry(ctx, filepath.Join(n.bed.Bin, "probe"), "http", "http://127.0.0.1:9090/readyz"); err != nil {
		return fmt.Errorf("%s: netplugin is not ready, see %s: %w", n.Name, n.LogFile("netplugin"), err)
	}
	return nil
}

// WaitWayOut waits until the node's pods can leave by it, the last that an agent makes.
func (n *Node) WaitWayOut(ctx context.Context) error {
	if _, err := n.retry(ctx, "sh", "-ec", "ip -br link show dev contivh0 up | grep -q ."); err != nil {
		return fmt.Errorf("%s: interface contivh0 is not up, see %s: %w", n.Name, n.LogFile("netplugin"), err)
	}
	return nil
}

// WaitAddresses waits until the kernel has looked for others with the IPv6 addresses of the node's links. Then it makes their
// routes, and with each a switch in user space reads all routes anew, which may cost a tunnel packets.
func (n *Node) WaitAddresses(ctx context.Context) error {
	if _, err := n.retry(ctx, "sh", "-ec", `! ip -6 -o address show tentative | grep .`); err != nil {
		return fmt.Errorf("%s: its addresses: %w", n.Name, err)
	}
	return nil
}

// PodLinks lists the host's ends of the links of pods.
func (n *Node) PodLinks(ctx context.Context) ([]string, error) {
	out, err := n.Run(ctx, "sh", "-c", "grep -Lx hostcontivh0 /sys/class/net/vvport*/ifalias | cut -d/ -f5")
	return strings.Fields(out), err
}

// Leader finds the node whose netmaster leads.
func (b *Bed) Leader(ctx context.Context) (*Node, error) {
	info, err := b.Info(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range b.Nodes {
		if info.LeaderIP == n.At(9999) {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no node has the leader's address %q", info.LeaderIP)
}
