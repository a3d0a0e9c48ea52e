package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// Clusters have IPv4; with DualStack they have IPv6 as their second family, with OnlyIPv6 as their only one.

// family is the configuration of an IP family.
type family struct {
	services string // range of services
	api      string // its first address, which the API server uses
	dns      string
}

var (
	ipv4 = family{"10.96.0.0/16", "10.96.0.1", "10.96.0.10"}
	ipv6 = family{"fd00:10:96::/112", "fd00:10:96::1", "fd00:10:96::a"}
)

func familiesOf(cfg Config) []family {
	switch {
	case cfg.OnlyIPv6:
		return []family{ipv6}
	case cfg.DualStack:
		return []family{ipv4, ipv6}
	}
	return []family{ipv4}
}

// first returns the family of services and nodes with one address.
func (c *Cluster) first() family { return c.families[0] }

// serviceRanges returns the ranges of services, the first family's first.
func (c *Cluster) serviceRanges() string {
	var all []string
	for _, f := range c.families {
		all = append(all, f.services)
	}
	return strings.Join(all, ",")
}

// secondAddress returns a node's IPv6 address in a dual-stack cluster; it ends with the node's IPv4 address.
func secondAddress(n *testbed.Node) string { return "2001:db8::" + n.MgmtIP }

// nodeAddresses returns the addresses that a kubelet reports for its node.
func (c *Cluster) nodeAddresses(n *testbed.Node) string {
	if len(c.families) > 1 {
		return n.MgmtIP + "," + secondAddress(n)
	}
	return n.MgmtIP
}

// addFamily assigns a node its address of the second family.
func (c *Cluster) addFamily(ctx context.Context, n *testbed.Node) error {
	if len(c.families) == 1 {
		return nil
	}
	_, err := n.Run(ctx, "ip", "address", "add", secondAddress(n)+"/64", "dev", "eth0", "nodad")
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
