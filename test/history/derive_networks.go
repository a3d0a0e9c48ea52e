package history

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

// Held are addresses that were allocated and have no endpoint, by network id.
type Held map[string]map[netip.Addr]bool

// subnet is the IPv4 part of a network, according to its object.
type subnet struct {
	prefix      netip.Prefix
	first, last netip.Addr // of the range
	gateway     netip.Addr
}

func parseSubnet(text, gateway string) subnet {
	addresses, length, _ := strings.Cut(text, "/")
	firstText, lastText, ranged := strings.Cut(addresses, "-")
	var s subnet
	prefix, err := netip.ParsePrefix(firstText + "/" + length)
	if err != nil {
		return s
	}
	s.prefix = prefix.Masked()
	s.first, s.last = s.prefix.Addr(), s.at(s.size()-1)
	if ranged {
		s.first, _ = netip.ParseAddr(firstText)
		s.last, _ = netip.ParseAddr(lastText)
	}
	s.gateway, _ = netip.ParseAddr(gateway)
	return s
}

func (s subnet) size() int { return 1 << (32 - s.prefix.Bits()) }

// at returns the address with an offset from the subnet's base.
func (s subnet) at(offset int) netip.Addr {
	base := s.prefix.Addr().As4()
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(base[:])+uint32(offset))))
}

func (s subnet) offset(a netip.Addr) int {
	base, addr := s.prefix.Addr().As4(), a.As4()
	return int(binary.BigEndian.Uint32(addr[:])) - int(binary.BigEndian.Uint32(base[:]))
}

// usable reports whether an address may be allocated: not the first or last of the subnet, not the gateway, and
// inside the range.
func (s subnet) usable(a netip.Addr) bool {
	return s.within(a, s.first, s.last) && a != s.gateway
}

func (s subnet) within(a, first, last netip.Addr) bool {
	if !a.Is4() || !s.prefix.Contains(a) || a.Less(first) || last.Less(a) {
		return false
	}
	offset := s.offset(a)
	return offset != 0 && offset != s.size()-1
}

// parsePool parses the range of a group: first-last, or one address.
func parsePool(text string) (first, last netip.Addr) {
	firstText, lastText, ranged := strings.Cut(text, "-")
	if !ranged {
		lastText = firstText
	}
	first, _ = netip.ParseAddr(firstText)
	last, _ = netip.ParseAddr(lastText)
	return first, last
}

func poolHas(pool string, a netip.Addr) bool {
	first, last := parsePool(pool)
	return pool != "" && a.Is4() && !a.Less(first) && !last.Less(a)
}

// network computes the record of a network.
func (d *derivation) network(n *contivmodel.Network) {
	id := n.NetworkName + "." + n.TenantName
	stored := d.world.record(networkPrefix + id)
	s := parseSubnet(n.Subnet, n.Gateway)
	rec := document{
		"id": id, "tenant": n.TenantName, "networkName": n.NetworkName, "nwType": n.NwType, "pktTagType": n.Encap,
		"pktTag": stored["pktTag"], "extPktTag": stored["extPktTag"],
		"subnetIP": s.prefix.Addr(), "subnetLen": s.prefix.Bits(), "gateway": n.Gateway,
		"ipAddrRange": s.first.String() + "-" + s.last.String(), "epAddrCount": 0, "epCount": 0,
		"ipAllocMap": bits{}.text(), "ipv6SubnetIP": "", "ipv6SubnetLen": 0, "ipv6Gateway": "",
		"ipv6AllocMap": nil, "ipv6LastHost": "",
		"networkTag": orText(n.CfgdTag, id),
	}
	if prefix, err := netip.ParsePrefix(n.Ipv6Subnet); err == nil {
		taken := document{}
		if gateway, err := netip.ParseAddr(n.Ipv6Gateway); err == nil {
			taken[hostPart(prefix, gateway)], rec["ipv6Gateway"] = true, gateway
		}
		rec["ipv6SubnetIP"], rec["ipv6SubnetLen"], rec["ipv6AllocMap"] = prefix.Masked().Addr(), prefix.Bits(), taken
	}
	d.put(networkPrefix+id, rec)
	owned := d.population(n)
	for a := range d.held[id] {
		if owned[a] != "" {
			continue // an address of an endpoint is not held as well
		}
		d.put(heldPrefix+id+"/"+a.String(), document{"id": a, "netID": id})
	}
	d.counter(n)
}

// counter computes where the search for the next IPv6 address starts: absent before the first allocation.
func (d *derivation) counter(n *contivmodel.Network) {
	id := n.NetworkName + "." + n.TenantName
	if stored := d.world.record(counterPrefix + id); stored != nil && n.Ipv6Subnet != "" {
		d.put(counterPrefix+id, document{"id": id, "lastHost": stored["lastHost"]})
	}
}

// hostPart returns an address without the bits of the prefix, "::5".
func hostPart(prefix netip.Prefix, a netip.Addr) string {
	raw := a.As16()
	for bit := range prefix.Bits() {
		raw[bit/8] &^= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom16(raw).String()
}

// population returns the used addresses of a network, each with its user.
func (d *derivation) population(n *contivmodel.Network) map[netip.Addr]string {
	id := n.NetworkName + "." + n.TenantName
	addresses := map[netip.Addr]string{}
	for _, ep := range d.world.Endpoints {
		if ep.NetID != id {
			continue
		}
		for _, text := range []string{ep.IPAddress, ep.IPv6Address} {
			if a, err := netip.ParseAddr(text); err == nil {
				addresses[a] = "endpoint " + ep.ID
			}
		}
	}
	for _, s := range all[contivmodel.ServiceLB](d.world) {
		if s.TenantName != n.TenantName || s.NetworkName != n.NetworkName {
			continue
		}
		vip, _ := d.world.record(servicePrefix + s.ServiceName + ":" + s.TenantName)["ipaddress"].(string)
		if a, err := netip.ParseAddr(vip); err == nil {
			addresses[a] = "service " + s.Key
		}
	}
	return addresses
}

func (d *derivation) groupsOf(n *contivmodel.Network) []*contivmodel.EndpointGroup {
	return slices.DeleteFunc(all[contivmodel.EndpointGroup](d.world), func(g *contivmodel.EndpointGroup) bool {
		return g.TenantName != n.TenantName || g.NetworkName != n.NetworkName
	})
}

// group computes the record of a group with its policies.
func (d *derivation) group(g *contivmodel.EndpointGroup) {
	id := g.GroupName + ":" + g.TenantName
	own := d.groupID(g.TenantName, g.GroupName)
	network := d.world.record(networkPrefix + g.NetworkName + "." + g.TenantName)
	rec := document{
		"id": id, "groupName": g.GroupName, "tenantName": g.TenantName, "networkName": g.NetworkName, "endpointGroupId": own,
		"pktTagType": network["pktTagType"], "pktTag": network["pktTag"], "extPktTag": network["extPktTag"],
		"epCount": 0, "DSCP": 0, "Bandwidth": "", "Burst": 0,
		"IPPool": "", "epgIpAllocMap": bits{}.text(), "groupTag": orText(g.CfgdTag, g.GroupName+"."+g.TenantName),
	}
	if p := one[contivmodel.Netprofile](d.world, g.TenantName+":"+g.NetProfile); p != nil {
		rec["DSCP"], rec["Bandwidth"], rec["Burst"] = p.DSCP, p.Bandwidth, p.Burst
	}
	if g.IPPool != "" {
		first, last := parsePool(g.IPPool)
		rec["IPPool"] = fmt.Sprintf("%s-%s", first, last)
	}
	d.put(groupPrefix+id, rec)
	for _, policy := range slices.Compact(slices.Sorted(slices.Values(g.Policies))) {
		d.binding(g, own, g.TenantName+":"+policy)
	}
}
