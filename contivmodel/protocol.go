package contivmodel

import (
	"strconv"

	"github.com/contiv/netplugin/utils/inet"
)

// protocolNames are the names that rules accept; other protocols are numbers.
var protocolNames = map[string]uint8{"": 0, "icmp": inet.ICMP, "tcp": inet.TCP, "udp": inet.UDP}

// ProtocolNumber parses the protocol of a rule, a name or a number up to 255; empty is 0, any.
func ProtocolNumber(text string) (number uint8, ok bool) {
	if number, named := protocolNames[text]; named {
		return number, true
	}
	n, err := strconv.ParseUint(text, 10, 8)
	return uint8(n), err == nil
}

// IgnoresPort reports whether a rule has a port that is ignored, as its protocol has no ports. New rules are
// refused then; existing ones apply to all ports.
func (r *Rule) IgnoresPort() bool {
	protocol, _ := ProtocolNumber(r.Protocol)
	return r.Port != 0 && !inet.HasPorts(protocol)
}
