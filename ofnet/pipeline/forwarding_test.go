package pipeline

import (
	"bytes"
	"fmt"
	"net/netip"
	"sync"
	"testing"
)

// Every pod pings every pod, after real ARP and neighbour discovery.
func TestPodsReachTheirTenantAndNobodyElse(t *testing.T) {
	blue := []Endpoint{web1, web2, db1, db2}
	c := startCluster(t, append(blue, red1, red2)...)

	var all sync.WaitGroup
	expect := func(from, to Endpoint, want int) {
		all.Go(func() {
			for _, a := range []netip.Addr{to.IPv4, to.IPv6} {
				if got := c.pod(from).pings(a, want); got != want {
					t.Errorf("%s pings %s at %s: TTL %d, want %d (0: no answer)", from.ID, to.ID, a, got, want)
				}
			}
		})
	}
	for _, from := range blue {
		for _, to := range blue {
			switch {
			case from.ID == to.ID:
			case from.Network == to.Network:
				expect(from, to, 64)
			default:
				expect(from, to, 63)
			}
		}
	}
	expect(red1, red2, 64)
	// The addresses of db exist in one tenant only: red has no such endpoint.
	expect(red1, db1, 0)
	expect(red2, db2, 0)
	all.Wait()
}

func TestSwitchedFramesArriveUnchangedAndRoutedOnesFromTheGateway(t *testing.T) {
	c := startCluster(t, web1, web2, db1, db2)
	for _, test := range []struct {
		name     string
		from, to Endpoint
		toMAC    mac
		routed   bool
	}{
		{"to another node, same network", web1, web2, web2.MAC, false},
		{"to another node, other network", web1, db2, AnycastMAC, true},
		{"on one node, other network", web1, db1, AnycastMAC, true},
		{"same network, by way of the gateway", db1, db2, AnycastMAC, true},
	} {
		for _, v := range []struct{ from, to netip.Addr }{{test.from.IPv4, test.to.IPv4}, {test.from.IPv6, test.to.IPv6}} {
			t.Run(fmt.Sprintf("%s, %s", test.name, v.to), func(t *testing.T) {
				receiver := c.pod(test.to).wire()
				sent := udpFrame(test.toMAC, test.from.MAC, v.to, v.from, t.Name())
				c.pod(test.from).wire().send(sent)
				got := receiver.receive(soon, carrying(t.Name()))

				want := sent
				if test.routed {
					want = routed(sent, test.to.MAC)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("arrived:\n%x\nwant:\n%x", got, want)
				}
			})
		}
	}
}

// red1 has the MAC and the IPv4 address of web1, and red2 those of web2.
func TestTenantsMayHaveTheSameAddressesAndMACs(t *testing.T) {
	c := startCluster(t, web1, web2, red1, red2)
	if red1.MAC != web1.MAC || red1.IPv4 != web1.IPv4 {
		t.Fatalf("the example has changed: %s and %s differ", web1.ID, red1.ID)
	}
	blueWire, redWire := c.pod(web2).wire(), c.pod(red2).wire()

	c.pod(red1).wire().send(udpFrame(red2.MAC, red1.MAC, red2.IPv4, red1.IPv4, "red secret"))
	if redWire.receive(soon, carrying("red secret")) == nil {
		t.Error("red2 did not get what red1 sent to it")
	}
	c.pod(web1).wire().send(udpFrame(web2.MAC, web1.MAC, web2.IPv4, web1.IPv4, "blue secret"))
	if got := blueWire.receive(soon, carrying("secret")); !carrying("blue secret")(got) {
		t.Errorf("web2 got %q first, want what web1 sent", got)
	}
}

func TestNothingIsFloodedAndUnknownReceiversGetNothing(t *testing.T) {
	c := startCluster(t, web1, web2, db1)
	sender := c.pod(web1).wire()
	others := []*wire{c.pod(web2).wire(), c.pod(db1).wire()}
	unknown := addr("10.1.1.77")

	sender.send(udpFrame(broadcast, web1.MAC, addr("255.255.255.255"), web1.IPv4, "stray"))
	sender.send(udpFrame(mac{0x01, 0x00, 0x5e, 0, 0, 0xfb}, web1.MAC, addr("224.0.0.251"), web1.IPv4, "stray"))
	sender.send(udpFrame(mac{0x33, 0x33, 0, 0, 0, 0xfb}, web1.MAC, addr("ff02::fb"), web1.IPv6, "stray"))
	sender.send(udpFrame(mac{2, 2, 10, 1, 1, 77}, web1.MAC, unknown, web1.IPv4, "stray"))
	sender.send(udpFrame(AnycastMAC, web1.MAC, unknown, web1.IPv4, "stray"))
	// The address of one endpoint with the MAC of another.
	sender.send(udpFrame(web2.MAC, web1.MAC, db1.IPv4, web1.IPv4, "stray"))
	// An endpoint of another network, not by the gateway.
	sender.send(udpFrame(db1.MAC, web1.MAC, db1.IPv4, web1.IPv4, "stray"))

	c.expectFence(sender, others, "stray")
}

// expectFence sends a valid frame to each of the wires after the invalid ones and checks that it arrives first:
// the others were dropped.
func (c *cluster) expectFence(sender *wire, others []*wire, stray string) {
	c.t.Helper()
	for _, w := range others {
		from, to := sender.pod.Endpoint, w.pod.Endpoint
		gate := to.MAC
		if from.Network != to.Network {
			gate = AnycastMAC
		}
		sender.send(udpFrame(gate, from.MAC, to.IPv4, from.IPv4, "fence"))
		switch got := w.receive(soon, func(f []byte) bool { return carrying("fence")(f) || carrying(stray)(f) }); {
		case got == nil:
			c.t.Errorf("%s got nothing, not even what it should", to.ID)
		case carrying(stray)(got):
			c.t.Errorf("%s got what it should not: %x", to.ID, got)
		}
	}
}
