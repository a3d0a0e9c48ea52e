package master

import (
	"cmp"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

var directions = []string{mastercfg.InRx, mastercfg.InTx, mastercfg.OutRx, mastercfg.OutTx}

// connectionSetup is the match on packets that open a TCP connection.
const connectionSetup = "syn,!ack"

// Peer is the far side of a rule, as the datapath knows it.
type Peer struct {
	Group      int    // id of the from- or to-group; 0: any
	From, To   string // addresses or CIDRs; empty: any
	From6, To6 string // IPv6 subnet of a network whose IPv4 subnet stands in From or To; else empty
}

// Expand returns the directional rules of a rule for one group that its policy is attached to.
//
// Packets in the direction of the rule are matched by the service port as their destination; if there is a
// service port, the replies get a rule of their own, which matches it as their source.
//
//	            source       destination   addresses        port
//	in   inRx   peer group   own group     from -> to       destination
//	     inTx   own group    peer group    to   -> from     source
//	out  outTx  own group    peer group    any  -> to       destination
//	     outRx  peer group   own group     to   -> any      source
func Expand(rule *contivmodel.Rule, bindingID string, own int, peer Peer) ([]mastercfg.CfgPolicyRule, error) {
	protocol, err := protocolNumber(rule.Protocol)
	if err != nil {
		return nil, err
	}
	base := mastercfg.CfgPolicyRule{Priority: rule.Priority, Action: rule.Action, IPProtocol: protocol}
	toGroup, fromGroup := base, base
	toGroup.SrcEndpointGroup, toGroup.DstEndpointGroup = peer.Group, own
	fromGroup.SrcEndpointGroup, fromGroup.DstEndpointGroup = own, peer.Group

	request, reply := &toGroup, &fromGroup
	names := [2]string{mastercfg.InRx, mastercfg.InTx}
	remote, local, remote6 := peer.From, peer.To, peer.From6
	if rule.Direction == "out" {
		request, reply = &fromGroup, &toGroup
		names = [2]string{mastercfg.OutTx, mastercfg.OutRx}
		remote, local, remote6 = peer.To, "", peer.To6
	}
	toGroup.SrcIPAddr, toGroup.DstIPAddr = remote, local
	fromGroup.SrcIPAddr, fromGroup.DstIPAddr = local, remote
	toGroup.SrcIPv6Addr, fromGroup.DstIPv6Addr = remote6, remote6
	request.DstPort, reply.SrcPort = uint16(rule.Port), uint16(rule.Port)
	if protocol == inet.TCP && rule.Port == 0 {
		request.TCPFlags = connectionSetup
	}
	request.RuleID = mastercfg.RuleID(bindingID, rule.ModelKey(), names[0])
	reply.RuleID = mastercfg.RuleID(bindingID, rule.ModelKey(), names[1])
	if rule.Port != 0 && inet.HasPorts(protocol) {
		return []mastercfg.CfgPolicyRule{*request, *reply}, nil
	}
	return []mastercfg.CfgPolicyRule{*request}, nil
}

// protocolNumber parses a protocol name or number; empty is 0, any.
func protocolNumber(text string) (uint8, error) {
	n, ok := contivmodel.ProtocolNumber(text)
	if !ok {
		return 0, fault.New(fault.Invalid, "protocol %s: want tcp, udp, icmp or a number up to 255", text).WithField("protocol")
	}
	return n, nil
}

// given is a field of a rule.
type given struct{ name, value string }

// Explanations for fields that do not go together.
const (
	incoming = "want what the traffic of direction in comes from, such as fromEndpointGroup web"
	outgoing = "want what the traffic of direction out goes to, such as toEndpointGroup web"
	oneOfTwo = "want one of the two"
)

// CheckRule returns an error for combinations of fields that have no meaning.
func CheckRule(rule *contivmodel.Rule) error {
	var (
		fromNetwork, fromGroup, fromAddress = given{"fromNetwork", rule.FromNetwork}, given{"fromEndpointGroup", rule.FromEndpointGroup}, given{"fromIpAddress", rule.FromIPAddress}
		toNetwork, toGroup, toAddress       = given{"toNetwork", rule.ToNetwork}, given{"toEndpointGroup", rule.ToEndpointGroup}, given{"toIpAddress", rule.ToIPAddress}
	)
	for _, c := range []struct {
		direction string
		most      int // of these fields
		fields    []given
		text      string
		want      string
	}{
		{"in", 0, []given{toNetwork, toGroup}, "can not specify 'to' parameters in incoming rule", incoming},
		{"in", 1, []given{fromNetwork, fromAddress}, "can not specify both from network and from ip address", oneOfTwo},
		{"in", 1, []given{fromNetwork, fromGroup}, "can not specify both from network and from EndpointGroup", oneOfTwo},
		{"out", 0, []given{fromNetwork, fromGroup, fromAddress}, "can not specify 'from' parameters in outgoing rule", outgoing},
		{"out", 1, []given{toNetwork, toAddress}, "can not specify both to-network and to-ip address", oneOfTwo},
		{"out", 1, []given{toNetwork, toGroup}, "can not specify both to-network and to-EndpointGroup", oneOfTwo},
	} {
		var set []string
		for _, f := range c.fields {
			if f.value != "" {
				set = append(set, f.name+" "+f.value)
			}
		}
		if rule.Direction == c.direction && len(set) > c.most {
			return fault.New(fault.Invalid, "%s", c.text).WithExplanation("%s: %s", strings.Join(set, " and "), c.want)
		}
	}
	if _, err := protocolNumber(rule.Protocol); err != nil {
		return err
	}
	if rule.IgnoresPort() {
		return fault.New(fault.Invalid, "port %d: protocol %s has no ports: want tcp, udp or 132 (SCTP) for the rule, or no port",
			rule.Port, cmp.Or(rule.Protocol, "any")).WithField("port")
	}
	from, err := checkAddress("fromIpAddress", rule.FromIPAddress)
	if err != nil {
		return err
	}
	to, err := checkAddress("toIpAddress", rule.ToIPAddress)
	if err != nil {
		return err
	}
	if from.IsValid() && to.IsValid() && from.Addr().Is4() != to.Addr().Is4() {
		return fault.New(fault.Invalid, "fromIpAddress %s and toIpAddress %s are of different families", rule.FromIPAddress, rule.ToIPAddress).
			WithField("toIpAddress")
	}
	return nil
}

// checkAddress parses what agents can match: an address or a CIDR. An empty text gives an invalid prefix.
func checkAddress(field, text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	if prefix, ok := parseAddresses(text); ok {
		return prefix, nil
	}
	return netip.Prefix{}, fault.New(fault.Invalid, "%s %s: want an address or address/length", field, text).WithField(field)
}

// parseAddresses parses an address or a CIDR.
func parseAddresses(text string) (netip.Prefix, bool) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return inet.Host(addr), true
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix, err == nil
}

// OneAddress parses an address, which may have its full prefix length: a/32.
func OneAddress(text string) (netip.Addr, bool) {
	prefix, ok := parseAddresses(text)
	return prefix.Addr(), ok && prefix.IsSingleIP()
}
