package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

func TestAPortMaySpeakForItsOwnEndpointOnly(t *testing.T) {
	c := startCluster(t, web1, web2)
	sender, receiver := c.pod(web1).wire(), c.pod(web2).wire()
	stranger := mac{2, 2, 10, 1, 1, 99}
	proper := udpFrame(web2.MAC, web1.MAC, web2.IPv4, web1.IPv4, "spoofed")

	forged := []struct {
		name  string
		frame []byte
	}{
		{"another MAC", udpFrame(web2.MAC, stranger, web2.IPv4, web1.IPv4, "spoofed")},
		{"another IPv4 address", udpFrame(web2.MAC, web1.MAC, web2.IPv4, addr("10.1.1.99"), "spoofed")},
		{"the address of the receiver", udpFrame(web2.MAC, web1.MAC, web2.IPv4, web2.IPv4, "spoofed")},
		{"another IPv6 address", udpFrame(web2.MAC, web1.MAC, web2.IPv6, addr("fd00:1::99"), "spoofed")},
		{"a link-local IPv6 address", udpFrame(web2.MAC, web1.MAC, web2.IPv6, addr("fe80::1"), "spoofed")},
		{"a protocol that is not IP", ethernet(web2.MAC, web1.MAC, 0x88b5, []byte("spoofed"))},
		{"an ARP request to a pod, in another's name", append(arpFrame(web1.MAC, addr("10.1.1.99"), web2.IPv4), "spoofed"...)},
	}
	for _, f := range forged {
		sender.send(f.frame)
	}
	sender.send(udpFrame(web2.MAC, mac{3, 2, 10, 1, 1, 1}, web2.IPv4, web1.IPv4, "spoofed")) // multicast source
	sender.send(append(append(append([]byte{}, proper[:12]...), 0x81, 0, 0, 1), proper[12:]...))
	c.expectFence(sender, []*wire{receiver}, "spoofed")

	t.Run("and what it forges is counted", func(t *testing.T) {
		refused := at(tablePort, priorityOther, openflow.InPort(c.pod(web1).port)).drop()
		dumped := c.pod(web1).node.Ofctl("dump-flows", bridge, fmt.Sprintf("table=%d,in_port=%d", refused.Table, c.pod(web1).port))
		var most int
		for _, line := range strings.Split(dumped, "\n") {
			if strings.Contains(line, "priority=10,") {
				_, after, _ := strings.Cut(line, "n_packets=")
				if _, err := fmt.Sscanf(after, "%d", &most); err != nil {
					t.Fatalf("no counter in %q", line)
				}
			}
		}
		// The kernel's own router solicitations and the like are refused as well.
		if most < len(forged) {
			t.Errorf("%d refused frames are counted, want at least %d:\n%s", most, len(forged), dumped)
		}
	})
}
