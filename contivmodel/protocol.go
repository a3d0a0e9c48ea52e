package contivmodel

import (
	"strconv"

	"github.com/contiv/netplugin/utils/inet"
)

// protocolNames are those that rules know; other protocols are numbers.
var protocolNames = map[string]uint8{"": 0, "icmp": inet.ICMP, "tcp": inet.TCP, "udp": inet.UDP}

// ProtocolNumber reads the protocol of a rule, a name or a number up to 255; none is 0, any.
func ProtocolNumber(text string) (number uint8, ok bool) {
	if number, named := protocolNames[text]; named {
		return number, true
	}
	n, err := strconv.ParseUint(text, 10, 8)
	return uint8(n), err == nil
}

// IgnoresPort tells whether a rule names a port that nothing is looked at by, as its protocol has none. No new rule
// does; those of before are for all ports.
func (r *Rule) IgnoresPort() bool {
	protocol, _ := ProtocolNumber(r.Protocol)
	return r.Port != 0 && !inet.HasPorts(protocol)
}
