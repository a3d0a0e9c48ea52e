package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// The causes in this file are about pools: what may have been in use during a call. The evidence is the records of
// the owners, and the calls that allocated and released at one revision.

// documents returns the values of a key during a call.
func (e *Evidence) documents(c *Call, key string) []document {
	var list []document
	for _, v := range e.log.Alive(key, c.From, c.To) {
		var d document
		if json.Unmarshal(v.Value, &d) == nil {
			list = append(list, d)
		}
	}
	return list
}

// request is the request of a call about addresses.
type request struct {
	networkID string
	group     string // state id; empty: none
	address   netip.Addr
	ipv6      bool
	named     string // network of the request
}

// in returns the request as a network handles it: an infrastructure network has a port for each host, without a
// group.
func (r request) in(n *contivmodel.Network) request {
	if n.NwType == "infra" {
		r.group = ""
	}
	return r
}

func requestOf(c *Call) request {
	var r request
	text := ""
	switch body := c.Request.(type) {
	case *mastercfg.CreateEndpointRequest:
		r.networkID, r.named = body.NetworkName+"."+body.TenantName, body.NetworkName
		if body.ConfigEP.ServiceName != "" {
			r.group = body.ConfigEP.ServiceName + ":" + body.TenantName
		}
		text = body.ConfigEP.IPAddress
		if strings.Contains(c.Message, "ipv6") {
			text = body.ConfigEP.IPv6Address
		}
	case *mastercfg.UpdateEndpointRequest:
		r.networkID = body.Network + "." + body.Tenant
	case *mastercfg.AllocAddressRequest:
		r.networkID, r.group = c.Key, poolGroup(body.NetworkID)
		text, r.ipv6 = body.PreferredIPv4Address, strings.Contains(body.AddressPool, ":")
	case *mastercfg.ReleaseAddressRequest:
		r.networkID, r.group = c.Key, poolGroup(body.NetworkID)
	}
	if s, ok := c.Object.(*contivmodel.ServiceLB); ok {
		r.networkID, text = s.NetworkName+"."+s.TenantName, s.IPAddress
	}
	r.address, _ = netip.ParseAddr(text)
	return r
}

// poolGroup returns the state id of the group in N:G.T, empty without one. The names of this test have no dots.
func poolGroup(id string) string {
	_, group, ok := strings.Cut(id, ":")
	if !ok {
		return ""
	}
	name, tenant, _ := strings.Cut(group, ".")
	return name + ":" + tenant
}

// homes returns the networks that a request may have found, as objects.
func (e *Evidence) homes(c *Call) []*contivmodel.Network {
	name, tenant, _ := strings.Cut(requestOf(c).networkID, ".")
	var list []*contivmodel.Network
	some(e, c, tenant, func(n *contivmodel.Network) bool {
		if n.NetworkName == name {
			list = append(list, n)
		}
		return false
	})
	return list
}

// endpointHomeless: the network or the group may have been absent, or the group may have belonged to another
// network.
func endpointHomeless(e *Evidence, c *Call) bool {
	r := requestOf(c)
	if e.away(c, networkPrefix+r.networkID) || e.away(c, modelKey("network", reversedID(r.networkID))) {
		return true
	}
	if r.group == "" {
		return false
	}
	name, tenant, _ := strings.Cut(r.group, ":")
	return e.away(c, modelKey("endpointGroup", tenant+":"+name)) || c.Verb != CreateEndpoint && groupElsewhere(e, c)
}

// containerAway: the endpoint may have been absent, from the network or, if that was absent itself, from the
// network of the group with its name.
func containerAway(e *Evidence, c *Call) bool {
	if ownAway(e, c) {
		return true
	}
	body, ok := c.Request.(*mastercfg.UpdateEndpointRequest)
	if !ok || !e.away(c, modelKey("network", body.Tenant+":"+body.Network)) {
		return false
	}
	return some(e, c, body.Tenant, func(g *contivmodel.EndpointGroup) bool {
		return g.GroupName == body.Network && e.away(c, endpointPrefix+g.NetworkName+"."+g.TenantName+"-"+body.EndpointID)
	})
}

func reversedID(id string) string {
	name, tenant, _ := strings.Cut(id, ".")
	return tenant + ":" + name
}

func groupElsewhere(e *Evidence, c *Call) bool {
	r := requestOf(c)
	name, tenant, _ := strings.Cut(r.group, ":")
	return some(e, c, tenant, func(g *contivmodel.EndpointGroup) bool {
		return g.GroupName == name && g.NetworkName+"."+g.TenantName != r.networkID
	})
}

// addressOutside: the address may have been outside the subnet.
func addressOutside(e *Evidence, c *Call) bool {
	r := requestOf(c)
	return slices.ContainsFunc(e.homes(c), func(n *contivmodel.Network) bool {
		return !parseSubnet(n.Subnet, "").prefix.Contains(r.address)
	})
}

// ipv6Outside: the network may have had no IPv6 subnet, or another one.
func ipv6Outside(e *Evidence, c *Call) bool {
	r := requestOf(c)
	return slices.ContainsFunc(e.homes(c), func(n *contivmodel.Network) bool {
		prefix, err := netip.ParsePrefix(n.Ipv6Subnet)
		return err != nil || !prefix.Contains(r.address)
	})
}

// taken reports whether an address may have been unavailable to the caller.
func (e *Evidence) taken(c *Call, r request, n *contivmodel.Network, a netip.Addr) bool {
	if a.Is6() {
		return e.taken6(c, r, n, a)
	}
	return !parseSubnet(n.Subnet, n.Gateway).usable(a) || e.owned(c, r.networkID)[a] ||
		e.reserved(c, r, n, a) || e.outsidePool(c, r, a) || e.passing(c, r.networkID, a) || e.fleeting(c, serviceIn(r.networkID)) > 0
}

// outsidePool reports whether the group in the request may have had a range without the address.
func (e *Evidence) outsidePool(c *Call, r request, a netip.Addr) bool {
	return slices.ContainsFunc(e.groupRecords(c, r), func(d document) bool {
		pool, _ := d["IPPool"].(string)
		return pool != "" && !poolHas(pool, a)
	})
}

// owned returns the addresses of a network that may have been in use during a call.
func (e *Evidence) owned(c *Call, networkID string) map[netip.Addr]bool {
	owned := map[netip.Addr]bool{}
	note := func(text any) {
		s, _ := text.(string)
		if a, err := netip.ParseAddr(s); err == nil {
			owned[a] = true
		}
	}
	for _, key := range e.log.Keys(endpointPrefix + networkID + "-") {
		for _, d := range e.documents(c, key) {
			note(d["ipAddress"])
			note(d["ipv6Address"])
		}
	}
	for _, key := range e.log.Keys(heldPrefix + networkID + "/") {
		for _, d := range e.documents(c, key) {
			note(d["id"])
		}
	}
	for _, key := range e.log.Keys(servicePrefix) {
		for _, d := range e.documents(c, key) {
			if fmt.Sprintf("%v.%v", d["subnet"], d["tenantname"]) == networkID {
				note(d["ipaddress"])
			}
		}
	}
	return owned
}

// reserved reports whether an address may have been in the range of a group other than the request's.
func (e *Evidence) reserved(c *Call, r request, n *contivmodel.Network, a netip.Addr) bool {
	return some(e, c, n.TenantName, func(g *contivmodel.EndpointGroup) bool {
		return g.NetworkName == n.NetworkName && reversed(g.ModelKey(), ":") != r.group && poolHas(g.IPPool, a)
	})
}

func (e *Evidence) groupRecords(c *Call, r request) []document {
	if r.group == "" {
		return nil
	}
	return e.documents(c, groupPrefix+r.group)
}

func (e *Evidence) taken6(c *Call, r request, n *contivmodel.Network, a netip.Addr) bool {
	prefix, err := netip.ParsePrefix(n.Ipv6Subnet)
	if gateway, _ := netip.ParseAddr(n.Ipv6Gateway); err != nil || a == prefix.Masked().Addr() || a == gateway {
		return true
	}
	return e.owned(c, r.networkID)[a] || e.passing(c, r.networkID, a)
}

// takesAddresses reports whether a member of the same apply may have taken the address: as its own, or in the pool
// it reserved.
func takesAddresses(m *Call) bool { return m.Type == "serviceLB" || m.Type == "endpointGroup" }

// passing reports whether an address was allocated during a call.
func (e *Evidence) passing(c *Call, networkID string, a netip.Addr) bool {
	if c.mate(takesAddresses) {
		return true
	}
	first, _ := slices.BinarySearchFunc(e.given, c.From, func(g grant, from int64) int { return cmp.Compare(g.revision, from) })
	for _, g := range e.given[first:] {
		if g.revision > c.To {
			break
		}
		if g.networkID == networkID && slices.Contains(g.addresses, a) {
			return true
		}
	}
	return false
}

// serviceIn returns a predicate on calls: it is about a service with an address in a network.
func serviceIn(networkID string) func(*Call) bool {
	return func(c *Call) bool {
		s, ok := c.Object.(*contivmodel.ServiceLB)
		return ok && s.NetworkName+"."+s.TenantName == networkID
	}
}

// addressTaken: the requested address may have been taken or reserved.
func addressTaken(e *Evidence, c *Call) bool {
	r := requestOf(c)
	return slices.ContainsFunc(e.homes(c), func(n *contivmodel.Network) bool { return e.taken(c, r.in(n), n, r.address) })
}

// addressesExhausted: every address of the pool may have been taken at some
// moment.
func addressesExhausted(e *Evidence, c *Call) bool {
	return slices.ContainsFunc(e.homes(c), func(n *contivmodel.Network) bool {
		r := requestOf(c).in(n)
		pools := []string{""}
		for _, d := range e.groupRecords(c, r) {
			pool, _ := d["IPPool"].(string)
			pools = append(pools, pool)
		}
		return slices.ContainsFunc(pools, func(pool string) bool { return e.full(c, r, n, pool) })
	})
}

func (e *Evidence) full(c *Call, r request, n *contivmodel.Network, pool string) bool {
	if c.mate(takesAddresses) {
		return true
	}
	s := parseSubnet(n.Subnet, n.Gateway)
	owned := e.owned(c, r.networkID)
	left := 0
	for offset := range s.size() {
		a := s.at(offset)
		if !s.usable(a) || owned[a] || pool != "" && !poolHas(pool, a) || e.passing(c, r.networkID, a) {
			continue
		}
		if pool != "" || !e.reserved(c, r, n, a) {
			left++
		}
	}
	return left <= e.fleeting(c, serviceIn(r.networkID)) // each had an address that the log does not show
}

// ipv6Exhausted: the IPv6 subnet is small, and every host part may have been
// taken at some moment.
func ipv6Exhausted(e *Evidence, c *Call) bool {
	r := requestOf(c)
	return slices.ContainsFunc(e.homes(c), func(n *contivmodel.Network) bool {
		prefix, err := netip.ParsePrefix(n.Ipv6Subnet)
		if err != nil || prefix.Bits() < 120 {
			return false
		}
		for a := prefix.Masked().Addr().Next(); prefix.Contains(a); a = a.Next() {
			if !e.taken6(c, r, n, a) {
				return false
			}
		}
		return true
	})
}

// poolTaken: an address of the requested pool may have been taken.
func poolTaken(e *Evidence, c *Call) bool {
	g := c.Object.(*contivmodel.EndpointGroup)
	r := request{networkID: g.NetworkName + "." + g.TenantName}
	first, last := parsePool(g.IPPool)
	return some(e, c, g.TenantName, func(n *contivmodel.Network) bool {
		for a := first; n.NetworkName == g.NetworkName && !last.Less(a); a = a.Next() {
			if e.taken(c, r, n, a) {
				return true
			}
		}
		return false
	})
}

// poolOutside: the pool may have been outside the network.
func poolOutside(e *Evidence, c *Call) bool {
	g := c.Object.(*contivmodel.EndpointGroup)
	first, last := parsePool(g.IPPool)
	return some(e, c, g.TenantName, func(n *contivmodel.Network) bool {
		prefix := parseSubnet(n.Subnet, "").prefix
		return n.NetworkName == g.NetworkName && (!prefix.Contains(first) || !prefix.Contains(last))
	})
}
