package pipeline

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
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
		n, most, dumped := c.pod(web1).node, 0, ""
		// The kernel's own router solicitations and the like are dropped, too.
		if eventually(func() string {
			n.forget() // it adds the datapath's counts to the flows
			dumped = n.Ofctl("dump-flows", bridge, fmt.Sprintf("table=%d,in_port=%d", tableGuard, c.pod(web1).port))
			for line := range strings.Lines(dumped) {
				if strings.Contains(line, "priority=10,") {
					_, after, _ := strings.Cut(line, "n_packets=")
					if _, err := fmt.Sscanf(after, "%d", &most); err != nil {
						t.Fatalf("no counter in %q", line)
					}
				}
			}
			if most < len(forged) {
				return ""
			}
			return "counted"
		}) == "" {
			t.Errorf("%d refused frames are counted, want at least %d:\n%s", most, len(forged), dumped)
		}
	})
}

// A neighbour advertisement, unicast like any other packet, changes its receiver's neighbour cache. It must not be
// about another endpoint's address.
func TestAPodCannotAdvertiseAnAddressThatIsNotItsOwn(t *testing.T) {
	c := startCluster(t, web1, web2)
	sender, receiver := c.pod(web1).wire(), c.pod(web2).wire()

	for _, victim := range []netip.Addr{webBlue.Gateway6, db2.IPv6, web2.IPv6} {
		sender.send(advertFrame(web2.MAC, web1.MAC, web2.IPv6, web1.IPv6, victim, "poison"))
	}
	for _, kind := range []byte{134, 137} { // types that only routers send
		frame := advertFrame(web2.MAC, web1.MAC, web2.IPv6, web1.IPv6, web1.IPv6, "poison")
		frame[14+40] = kind
		sender.send(frame)
	}
	c.expectFence(sender, []*wire{receiver}, "poison")

	sender.send(advertFrame(web2.MAC, web1.MAC, web2.IPv6, web1.IPv6, web1.IPv6, "truth"))
	if receiver.receive(soon, carrying("truth")) == nil {
		t.Error("an advertisement of one's own address does not arrive")
	}
	// The kernel at the other end has not learned another gateway.
	if out, err := c.pod(web2).exec("ip", "-6", "neigh", "show", webBlue.Gateway6.String()); err != nil || strings.Contains(out, "02:02:0a:01:01:01") {
		t.Errorf("web2 believes in another gateway: %s %v", out, err)
	}
}

// The answers of a DHCP server set a client's address and router.
func TestAPodCannotServeDHCP(t *testing.T) {
	for _, pods := range [][2]Endpoint{{web1, web2}, {lan1, lan3}} {
		server, client := pods[0], pods[1]
		c := startCluster(t, server, client)
		sender, receiver := c.pod(server).wire(), c.pod(client).wire()
		before := c.pod(server).node.dropped(t, reasonServer)
		var sent uint64
		for _, frame := range [][]byte{
			udpFrame(client.MAC, server.MAC, client.IPv4, server.IPv4, "answer"),
			udpFrame(client.MAC, server.MAC, client.IPv6, server.IPv6, "answer"),
		} {
			asked, answering := uint16(67), uint16(68)
			ports := frame[14+20:]
			if frame[12] == 0x86 {
				asked, answering, ports = 547, 546, frame[14+40:]
			}
			for _, p := range [][2]uint16{{asked, answering}, {asked, 9}, {4000, answering}} {
				binary.BigEndian.PutUint16(ports, p[0])
				binary.BigEndian.PutUint16(ports[2:], p[1])
				sender.send(frame)
				sent++
			}
		}
		sender.send(udpFrame(client.MAC, server.MAC, client.IPv4, server.IPv4, "fence"))
		if got := receiver.got("fence", "answer"); got != 0 {
			t.Errorf("%s gets %d answers", client.ID, got)
		}
		n := c.pod(server).node
		if got := settled(sent, func() uint64 { n.forget(); return n.dropped(t, reasonServer) - before }); got != sent {
			t.Errorf("%s: %d are counted, want %d", server.ID, got, sent)
		}
	}
}

// advertFrame returns a solicited neighbour advertisement of a target, with the sender's MAC as the target's, and
// a text that receivers ignore.
func advertFrame(dst, src mac, to, from, target netip.Addr, text string) []byte {
	body := append([]byte{136, 0, 0, 0, 0xe0, 0, 0, 0}, target.AsSlice()...)
	body = append(append(body, 2, 1), src[:]...)
	option := append([]byte{200, 2}, text...)
	body = append(body, append(option, make([]byte, 16-len(option))...)...)
	return ipv6Frame(dst, src, to, from, 58, 255, 2, body)
}
