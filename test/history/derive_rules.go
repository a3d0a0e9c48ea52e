package history

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// binding computes the attachment of a policy to a group, with its rules.
func (d *derivation) binding(g *contivmodel.EndpointGroup, own int, policy string) {
	id := g.TenantName + ":" + g.GroupName + ":" + policy
	d.put(statePrefix+"policy/"+id, document{"id": id, "EpgPolicyKey": id, "EndpointGroupID": own})
	for _, r := range all[contivmodel.Rule](d.world) {
		if r.TenantName+":"+r.PolicyName == policy {
			d.rule(id, own, r)
		}
	}
}

var protocols = map[string]int{"": 0, "icmp": 1, "tcp": 6, "udp": 17}

// row is a line of the table of directional rules; the letters mean PEER and OWN group, FROM and TO address, and
// the service port.
type row struct {
	name                   string
	src, dst               rune   // P or O
	srcIP, dstIP           string // F, T or empty
	srcPort, dstPort, open bool
}

var table = map[string]row{
	"inRx":  {"inRx", 'P', 'O', "F", "T", false, true, true},
	"inTx":  {"inTx", 'O', 'P', "T", "F", true, false, false},
	"outRx": {"outRx", 'P', 'O', "T", "", true, false, false},
	"outTx": {"outTx", 'O', 'P', "", "T", false, true, true},
}

// rule computes the directional rules of a rule on one group. A rule whose peer does not exist has none.
func (d *derivation) rule(binding string, own int, r *contivmodel.Rule) {
	from, to := r.FromIPAddress, r.ToIPAddress
	address6 := map[string]string{} // of a dual-stack network
	group := map[rune]int{'O': own}
	if name := orText(r.FromEndpointGroup, r.ToEndpointGroup); name != "" {
		if group['P'] = d.groupID(r.TenantName, name); group['P'] == 0 {
			return
		}
	}
	for _, side := range []struct {
		name, other string
		address     *string
		letter      string
	}{{r.FromNetwork, r.ToIPAddress, &from, "F"}, {r.ToNetwork, r.FromIPAddress, &to, "T"}} {
		if side.name == "" {
			continue
		}
		n := one[contivmodel.Network](d.world, r.TenantName+":"+side.name)
		if n == nil {
			return
		}
		*side.address = covering(parseSubnet(n.Subnet, "")).String()
		prefix, err := netip.ParsePrefix(n.Ipv6Subnet)
		switch {
		case strings.Contains(side.other, ":"): // the other side is IPv6
			if err != nil {
				return
			}
			*side.address = prefix.Masked().String()
		case side.other == "" && err == nil:
			address6[side.letter] = prefix.Masked().String()
		}
	}
	protocol, named := protocols[r.Protocol]
	if !named {
		protocol, _ = strconv.Atoi(r.Protocol)
	}
	wanted := map[string][]string{"in": {"inRx"}, "out": {"outTx"}}[r.Direction]
	if r.Port != 0 && (protocol == 6 || protocol == 17 || protocol == 132) {
		wanted = map[string][]string{"in": {"inRx", "inTx"}, "out": {"outRx", "outTx"}}[r.Direction]
	}
	address := map[string]string{"F": from, "T": to}
	for _, name := range wanted {
		row := table[name]
		id := binding + ":" + r.Key + ":" + name
		doc := document{"id": "", "RuleId": id, "Priority": r.Priority, "Action": r.Action, "IpProtocol": protocol,
			"SrcEndpointGroup": group[row.src], "DstEndpointGroup": group[row.dst],
			"SrcIpAddr": address[row.srcIP], "DstIpAddr": address[row.dstIP], "SrcPort": 0, "DstPort": 0, "TcpFlags": ""}
		if src6 := address6[row.srcIP]; src6 != "" {
			doc["SrcIpv6Addr"] = src6
		}
		if dst6 := address6[row.dstIP]; dst6 != "" {
			doc["DstIpv6Addr"] = dst6
		}
		if row.srcPort {
			doc["SrcPort"] = r.Port
		}
		if row.dstPort {
			doc["DstPort"] = r.Port
		}
		if row.open && protocol == 6 && r.Port == 0 {
			doc["TcpFlags"] = "syn,!ack"
		}
		d.put(statePrefix+"policyRule/"+id, doc)
	}
}

// covering returns the smallest prefix that contains the whole range of a network; without a range, its subnet.
func covering(s subnet) netip.Prefix {
	if s.first == s.prefix.Addr() && s.last == s.at(s.size()-1) {
		return s.prefix
	}
	cover := netip.PrefixFrom(s.first, 32)
	for !cover.Contains(s.last) {
		cover = netip.PrefixFrom(s.first, cover.Bits()-1).Masked()
	}
	return cover
}

// running returns the endpoints of a tenant with a running container that can receive connections.
func (d *derivation) running(tenant string) []*mastercfg.CfgEndpointState {
	return d.world.endpoints(func(ep *mastercfg.CfgEndpointState) bool {
		return ep.ContainerID != "" && ep.IPAddress != "" && d.tenantOfNetwork(ep.NetID) == tenant
	})
}

// selects reports whether a container has labels, and all those of a service.
func selects(selectors document, labels map[string]string) bool {
	for key, value := range selectors {
		if labels[key] != value {
			return false
		}
	}
	return len(labels) > 0
}

func (d *derivation) tenantOfNetwork(id string) string {
	tenant, _ := d.world.record(networkPrefix + id)["tenant"].(string)
	return tenant
}
