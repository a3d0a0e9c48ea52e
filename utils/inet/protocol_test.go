package inet_test

import (
	"testing"

	"github.com/contiv/netplugin/utils/inet"
)

func TestProtocolsWithPortsHaveNames(t *testing.T) {
	for number := range 256 {
		name := inet.TransportName(uint8(number))
		if inet.HasPorts(uint8(number)) != (name != "") || name != "" && inet.TransportNumber(name) != uint8(number) {
			t.Errorf("protocol %d is called %q", number, name)
		}
	}
	for name, want := range map[string]uint8{"tcp": inet.TCP, "udp": inet.UDP, "sctp": inet.SCTP, "icmp": 0, "TCP": 0, "": 0} {
		if got := inet.TransportNumber(name); got != want {
			t.Errorf("%q is %d, want %d", name, got, want)
		}
	}
}
