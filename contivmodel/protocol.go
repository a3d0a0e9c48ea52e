package contivmodel

import "strconv"

// Numbers of the IP protocols that rules know more of than the number.
const (
	ProtocolICMP uint8 = 1
	ProtocolTCP  uint8 = 6
	ProtocolUDP  uint8 = 17
	ProtocolSCTP uint8 = 132
)

var protocolNames = map[string]uint8{"": 0, "icmp": ProtocolICMP, "tcp": ProtocolTCP, "udp": ProtocolUDP}

// ProtocolNumber reads the protocol of a rule, a name or a number up to 255; none is 0, any.
func ProtocolNumber(text string) (number uint8, ok bool) {
	if number, named := protocolNames[text]; named {
		return number, true
	}
	n, err := strconv.ParseUint(text, 10, 8)
	return uint8(n), err == nil
}

// HasPorts tells whether packets of an IP protocol have ports: without them a rule says nothing by its port.
func HasPorts(protocol uint8) bool {
	return protocol == ProtocolTCP || protocol == ProtocolUDP || protocol == ProtocolSCTP
}

// IgnoresPort tells whether a rule names a port that nothing is looked at by, as its protocol has none. No new rule
// does; those of before are for all ports.
func (r *Rule) IgnoresPort() bool {
	protocol, _ := ProtocolNumber(r.Protocol)
	return r.Port != 0 && !HasPorts(protocol)
}
