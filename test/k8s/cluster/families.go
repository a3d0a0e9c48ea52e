package cluster

import (
	"context"
	"fmt"

	"github.com/contiv/netplugin/test/testbed"
)

// Clusters have IPv4, and with DualStack IPv6 as their second family.

// serviceRanges are those of services, the first family's first.
func (c *Cluster) serviceRanges() string {
	if c.dualStack {
		return serviceRange + "," + serviceRange6
	}
	return serviceRange
}

// nodeIPv6 is a node's address of IPv6, which ends with that of IPv4.
func nodeIPv6(n *testbed.Node) string { return "2001:db8::" + n.MgmtIP }

// nodeAddresses are those that a kubelet says are its node's.
func (c *Cluster) nodeAddresses(n *testbed.Node) string {
	if c.dualStack {
		return n.MgmtIP + "," + nodeIPv6(n)
	}
	return n.MgmtIP
}

// addFamily gives a node its address of the second family.
func (c *Cluster) addFamily(ctx context.Context, n *testbed.Node) error {
	if !c.dualStack {
		return nil
	}
	_, err := n.Run(ctx, "ip", "address", "add", nodeIPv6(n)+"/64", "dev", "eth0", "nodad")
	return err
}

// labelZones distributes the nodes among the zones.
func (c *Cluster) labelZones(ctx context.Context) error {
	for i, n := range c.Nodes {
		if c.zones == 0 {
			return nil
		}
		if _, err := c.Kubectl(ctx, "label", "node", n.Name, fmt.Sprintf("topology.kubernetes.io/zone=zone%d", i%c.zones+1)); err != nil {
			return err
		}
	}
	return nil
}
