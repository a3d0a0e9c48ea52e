package history

import (
	"fmt"
	"net/netip"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Choices checks the controller's choices: that nothing has two owners, that requests were honoured, and that
// everything is from the right pool.
func Choices(w *World) []string {
	c := choices{derivation: derivation{world: w}, owners: map[string]string{}}
	c.tags()
	for _, t := range all[contivmodel.Tenant](w) {
		c.number("routing domain", number(w.record(statePrefix + "vrfs/" + t.TenantName)["vrf"]), 1, 65535, "tenant "+t.Key)
	}
	for _, g := range all[contivmodel.EndpointGroup](w) {
		c.number("group id", c.groupID(g.TenantName, g.GroupName), 1, lastGroup, "group "+g.Key)
	}
	for _, ep := range w.endpoints(func(*mastercfg.CfgEndpointState) bool { return true }) {
		c.endpoint(ep)
	}
	for _, s := range all[contivmodel.ServiceLB](w) {
		c.service(s)
	}
	for _, b := range all[contivmodel.Bgp](w) {
		c.only("address "+b.Routerip+" among the routers outside", "node "+b.Hostname)
	}
	return c.found
}

type choices struct {
	derivation
	owners map[string]string // of everything that only one may have
	found  []string
}

func (c *choices) report(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// only records the owner of something and reports a second one.
func (c *choices) only(what, owner string) {
	if other := c.owners[what]; other != "" {
		c.report("given twice: %s, to %s and %s", what, other, owner)
	}
	c.owners[what] = owner
}

func (c *choices) number(what string, n, low, high int, owner string) {
	c.only(fmt.Sprintf("%s %d", what, n), owner)
	if n < low || n > high {
		c.report("%s of %s is %d, not in %d-%d", what, owner, n, low, high)
	}
}

func (c *choices) tags() {
	g := one[contivmodel.Global](c.world, "global")
	if g == nil {
		return
	}
	lowVLAN, highVLAN := tagRange(g.Vlans)
	lowVNI, highVNI := tagRange(g.Vxlans)
	for _, n := range all[contivmodel.Network](c.world) {
		tag, external := c.derivation.tags(n)
		wire := tag
		if n.Encap == "vlan" {
			c.number("vlan", tag, lowVLAN, min(highVLAN, lastVLAN), "network "+n.Key)
		} else {
			wire = external
			c.number("local tag", tag, 1, lastLocalTag, "network "+n.Key)
			c.number("vni", external, lowVNI, highVNI, "network "+n.Key)
		}
		if n.PktTag != 0 && wire != n.PktTag {
			c.report("network %s asked for tag %d and has %d", n.Key, n.PktTag, wire)
		}
	}
}

func (c *choices) endpoint(ep *mastercfg.CfgEndpointState) {
	c.only("id "+ep.ID, "endpoint")
	if ep.ID != ep.NetID+"-"+ep.EndpointID {
		c.report("endpoint %s: container %s of network %s", ep.ID, ep.EndpointID, ep.NetID)
	}
	if ep.VtepIP != "" || ep.IntfName != "" {
		c.report("endpoint %s: vtepIP %q and intfName %q must be empty", ep.ID, ep.VtepIP, ep.IntfName)
	}
	rec := c.world.record(networkPrefix + ep.NetID)
	n := one[contivmodel.Network](c.world, fmt.Sprintf("%v:%v", rec["tenant"], rec["networkName"]))
	if n == nil {
		return // an infra network may be deleted first; see references
	}
	a := c.address(n, ep.IPAddress, "endpoint "+ep.ID)
	if a.Is4() {
		o := a.As4()
		if mac := fmt.Sprintf("02:02:%02x:%02x:%02x:%02x", o[0], o[1], o[2], o[3]); ep.MacAddress != mac {
			c.report("endpoint %s: %s has MAC address %s", ep.ID, ep.IPAddress, ep.MacAddress)
		}
	}
	c.ipv6(n, ep)
	c.membership(n, ep, a)
}

// address checks that an IPv4 address may be allocated, and has one owner.
func (c *choices) address(n *contivmodel.Network, text, owner string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil || !parseSubnet(n.Subnet, n.Gateway).usable(a) {
		c.report("%s has address %q, which network %s with subnet %s and gateway %q must not hand out", owner, text, n.Key, n.Subnet, n.Gateway)
		return netip.Addr{}
	}
	c.only("address "+text+" of network "+n.Key, owner)
	return a
}

func (c *choices) ipv6(n *contivmodel.Network, ep *mastercfg.CfgEndpointState) {
	prefix, err := netip.ParsePrefix(n.Ipv6Subnet)
	if (err == nil) != (ep.IPv6Address != "") {
		c.report("endpoint %s has ipv6 address %q, network %s has ipv6 subnet %q", ep.ID, ep.IPv6Address, n.Key, n.Ipv6Subnet)
	}
	if err != nil || ep.IPv6Address == "" {
		return
	}
	a, err := netip.ParseAddr(ep.IPv6Address)
	if gateway, _ := netip.ParseAddr(n.Ipv6Gateway); err != nil || !prefix.Contains(a) || a == prefix.Masked().Addr() || a == gateway {
		c.report("endpoint %s has ipv6 address %q, which network %s must not hand out", ep.ID, ep.IPv6Address, n.Key)
	}
	c.only("address "+ep.IPv6Address+" of network "+n.Key, "endpoint "+ep.ID)
}

// membership checks the group of an endpoint, and that its address is from the right pool.
func (c *choices) membership(n *contivmodel.Network, ep *mastercfg.CfgEndpointState, a netip.Addr) {
	group := ep.ServiceName
	if n.NwType == "infra" {
		group = ""
	}
	wanted := ""
	if group != "" {
		wanted = group + ":" + n.TenantName
	}
	id := 0
	if group != "" {
		id = c.groupID(n.TenantName, group)
	}
	if ep.EndpointGroupKey != wanted || ep.EndpointGroupID != id {
		c.report("endpoint %s has group %q with id %d, must have %q with id %d", ep.ID, ep.EndpointGroupKey, ep.EndpointGroupID, wanted, id)
	}
	own := one[contivmodel.EndpointGroup](c.world, n.TenantName+":"+group)
	if own != nil && own.IPPool != "" && !poolHas(own.IPPool, a) {
		c.report("endpoint %s has address %s, its group has pool %s", ep.ID, a, own.IPPool)
	}
	for _, g := range c.groupsOf(n) {
		if poolHas(g.IPPool, a) && (own == nil || g.Key != own.Key) {
			c.report("endpoint %s has address %s of the pool of group %s", ep.ID, a, g.Key)
		}
	}
}

func (c *choices) service(s *contivmodel.ServiceLB) {
	n := one[contivmodel.Network](c.world, s.TenantName+":"+s.NetworkName)
	if n == nil {
		return // see references
	}
	vip, _ := c.world.record(servicePrefix + s.ServiceName + ":" + s.TenantName)["ipaddress"].(string)
	a := c.address(n, vip, "service "+s.Key)
	if s.IPAddress != "" && s.IPAddress != vip {
		c.report("service %s asked for %s and has %s", s.Key, s.IPAddress, vip)
	}
	for _, g := range c.groupsOf(n) {
		if poolHas(g.IPPool, a) {
			c.report("service %s has address %s of the pool of group %s", s.Key, a, g.Key)
		}
	}
}
