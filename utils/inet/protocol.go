package inet

// Numbers of IP protocols, of https://www.iana.org/assignments/protocol-numbers.
const (
	ICMP         = 1
	TCP          = 6
	UDP          = 17
	IPv6Fragment = 44 // IPv6 fragment header; in Open vSwitch the protocol of all later fragments
	ICMPv6       = 58
	SCTP         = 132
)

// transports are the protocols with ports.
var transports = map[string]uint8{"tcp": TCP, "udp": UDP, "sctp": SCTP}

// TransportNumber returns the number of a protocol with ports by its name: tcp, udp or sctp; 0 for any other.
func TransportNumber(name string) uint8 { return transports[name] }

// TransportName returns the name of a protocol with ports, and "" for any other.
func TransportName(number uint8) string {
	for name, n := range transports {
		if n == number {
			return name
		}
	}
	return ""
}

// HasPorts reports whether packets of an IP protocol have ports.
func HasPorts(number uint8) bool { return TransportName(number) != "" }
