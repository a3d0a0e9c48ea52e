package testbed

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/test/vlanlink"
)

// Outside is the physical network, and the router on it: a switch in a namespace of its own, independent of the
// project:
//
//	node1 eth1 ===+                    +--- VLAN 107: bridge vlan107 10.1.7.1 ---+
//	              +=== outside: trunks +                                         +--- Linux routes
//	node2 eth1 ===+                    +--- VLAN 108: bridge vlan108 10.1.8.1 ---+
//
// Each VLAN is a learning bridge, as in a switch. The port of NODE's eth1 is called NODE-1. Untagged frames are in
// the bridge "native".
type Outside struct{ *machine }

// UplinkName returns the name of a node's link to the physical network; number counts from 1.
func UplinkName(number int) string { return fmt.Sprint("eth", number) }

// outsideScript creates a switch that is also a router. It sends packets with complete checksums: nothing behind a
// veth completes them for a userspace switch.
const outsideScript = `
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.arp_ignore=1
ip link add native type bridge
ethtool -K native tx off >/dev/null
ip link set native up`

func startOutside(ctx context.Context, dir string, detach bool) (*Outside, error) {
	m, err := startMachine(ctx, "outside", filepath.Join(dir, "outside"), detach)
	if err != nil {
		return nil, err
	}
	o := &Outside{m}
	if _, err := o.Run(ctx, "sh", "-ec", outsideScript); err != nil {
		return o, err
	}
	return o, nil
}

// uplinkScript adds a node's link to the switch.
const uplinkScript = `
ip link add "$1" type veth peer name "$2" netns "$3"
ip link set "$1" master native up`

// connect adds an uplink with a number to the node, and sets it up.
func (o *Outside) connect(ctx context.Context, n *Node, number int) error {
	if err := o.inNetwork(ctx, uplinkScript, o.Port(n, number), UplinkName(number), fmt.Sprint(n.pid)); err != nil {
		return err
	}
	_, err := n.Run(ctx, "ip", "link", "set", UplinkName(number), "up")
	return err
}

// Port returns the switch's port of an uplink of the node.
func (o *Outside) Port(n *Node, number int) string { return fmt.Sprint(n.Name, "-", number) }

// AddVLAN creates a VLAN with all nodes' ports, and gives the router addresses in it. The interface is called
// vlanID.
func (b *Bed) AddVLAN(ctx context.Context, id uint16, router ...netip.Prefix) error {
	o := b.Outside
	bridge := fmt.Sprint("vlan", id)
	if _, err := o.Run(ctx, "sh", "-ec", `ip link add "$1" type bridge; ethtool -K "$1" tx off >/dev/null; ip link set "$1" up`, "sh", bridge); err != nil {
		return err
	}
	for _, address := range router {
		if _, err := o.Run(ctx, "ip", "address", "add", address.String(), "dev", bridge, "nodad"); err != nil {
			return err
		}
	}
	for _, n := range b.Nodes {
		for number := range n.uplinks {
			if err := o.join(ctx, id, o.Port(n, number+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// join adds a trunk of the switch to a VLAN.
func (o *Outside) join(ctx context.Context, id uint16, port string) error {
	ns, err := netns.GetFromPid(o.pid)
	if err != nil {
		return fmt.Errorf("network of %s: %w", o.name, err)
	}
	defer ns.Close()
	member := fmt.Sprint(port, ".", id)
	if err := vlanlink.Add(ns, port, member, id); err != nil {
		return err
	}
	_, err = o.Run(ctx, "ip", "link", "set", member, "master", fmt.Sprint("vlan", id))
	return err
}

// RemoveVLAN undoes AddVLAN.
func (b *Bed) RemoveVLAN(ctx context.Context, id uint16) error {
	_, err := b.Outside.Run(ctx, "sh", "-ec", `
for port in /sys/class/net/*; do case $port in *".$1") ip link delete "${port##*/}";; esac; done
ip link delete "vlan$1"`, "sh", fmt.Sprint(id))
	return err
}
