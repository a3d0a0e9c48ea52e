package testbed

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Command lines of the daemons: the real flags and addresses, without special ones for tests.

// StartNetmaster starts the node's netmaster with its embedded etcd member.
func (n *Node) StartNetmaster(extra ...string) (err error) {
	var peers []string
	for _, peer := range n.bed.Nodes {
		peers = append(peers, peer.Name+"="+peer.peerURL())
	}
	args := append([]string{"env", n.foundation()}, n.program("netmaster")...) // older netmasters do not have it as a flag
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

// StartNetplugin starts the node's agent, with its first uplink unless others are given. It reads the state
// through all netmasters in a secure bed, else from the store, unless extra says otherwise.
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

// program returns the command of a daemon: the daemon itself, or a program that confines it like its unit, or that
// sets its clock.
func (n *Node) program(name string) []string {
	switch {
	case n.bed.confined:
		return []string{n.Tool("confine"), n.unit(name + ".service"), n.Tool(name)}
	case n.ahead != 0:
		return standing(n.Tool(name))
	}
	return []string{n.Tool(name)}
}

// unit returns the path of a systemd unit of the daemons.
func (n *Node) unit(name string) string { return filepath.Join(n.bed.Bin, "../scripts/systemd", name) }

// StoreDir returns the directory of the store member of the node's netmaster.
func (n *Node) StoreDir() string {
	if n.bed.confined {
		return "/var/lib/contiv/netmaster/etcd"
	}
	return "/var/lib/contiv/etcd"
}

// Netmaster returns the node's netmaster, nil before its start.
func (n *Node) Netmaster() *Process { return n.netmaster }

// Netplugin returns the node's agent, nil before its start.
func (n *Node) Netplugin() *Process { return n.netplugin }

// WaitReady waits until the node's netplugin is ready for pods.
func (n *Node) WaitReady(ctx context.Context) error {
	if _, err := n.retry(ctx, filepath.Join(n.bed.Bin, "probe"), "http", "http://127.0.0.1:9090/readyz"); err != nil {
		return fmt.Errorf("%s: netplugin is not ready, see %s: %w", n.Name, n.LogFile("netplugin"), err)
	}
	return nil
}

// WaitWayOut waits until the node's pods have their egress, which an agent configures last.
func (n *Node) WaitWayOut(ctx context.Context) error {
	if _, err := n.retry(ctx, "sh", "-ec", "ip -br link show dev contivh0 up | grep -q ."); err != nil {
		return fmt.Errorf("%s: interface contivh0 is not up, see %s: %w", n.Name, n.LogFile("netplugin"), err)
	}
	return nil
}

// WaitAddresses waits until duplicate address detection of the IPv6 addresses of the node's links has ended. Then
// the kernel adds their routes, and for each a userspace switch reads all routes again, which may cost a tunnel
// packets.
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

// Leader returns the node whose netmaster is the leader.
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
