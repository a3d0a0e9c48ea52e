package ovsd_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// strew sends a datagram from each of some ports to each of some services, so that each creates a connection.
const strew = `
import socket, sys, time
print("ready", flush=True)
for port in range(20000, 20064):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", port))
    for i in range(int(sys.argv[1])): s.sendto(b"x", ("10.1.0.%d" % (100 + i), 80))
    time.sleep(0.01)
print(0, "sent")
`

// TestAChangeDoesNotWaitForConnectionsToEnd removes four of five providers from many services at once. Each flush
// walks all tracked connections of the switch.
func TestAChangeDoesNotWaitForConnectionsToEnd(t *testing.T) {
	const services, stays = 50, "10.1.0.11"
	n := newNode(t)
	r := n.start()
	client := n.newPod(r, 1)
	all := func(providers int) (c drivers.Change) {
		for i := range services {
			s := pipeline.Service{ID: fmt.Sprint("s", i, ":blue"), VRF: network.VRF, Tag: network.Tag,
				Ports: []pipeline.ServicePort{{Address: netip.AddrFrom4([4]byte{10, 1, 0, byte(100 + i)}), From: pipeline.FromPods,
					Protocol: openflow.ProtoUDP, Port: 80, Target: 8080}}}
			for p := range providers {
				s.Providers = append(s.Providers, netip.AddrFrom4([4]byte{10, 1, 0, byte(11 + p)}))
			}
			c.Set = append(c.Set, s.Numbered(func(uint32) bool { return false }))
		}
		return c
	}
	r.give(everything(client))
	zones := pipeline.Zones(network.VRF)
	n.KeepConnections(zones[:]...)
	r.give(all(5))
	connections := func() (toGone, toOther int) {
		table := n.Appctl("dpctl/dump-conntrack")
		toOther = strings.Count(table, "reply=(src="+stays+",")
		return strings.Count(table, "reply=(src=10.1.0.1") - toOther, toOther
	}
	// A busy switch drops some of a burst: those packets are sent again.
	var made, others int
	eventually(t, "two thousand connections, and no more come", func() bool {
		if made+others <= 2000 {
			if got := client.start(strew, fmt.Sprint(services))(); got != "0 sent" {
				t.Fatal(got)
			}
		}
		madeThen, othersThen := made, others
		made, others = connections()
		return made+others > 2000 && made == madeThen && others == othersThen
	})

	r.give(all(1))
	r.give(drivers.Change{Set: []pipeline.Object{remote(9, 0)}})
	if left, _ := connections(); left == 0 {
		t.Errorf("of %d connections to end none is left: a change waits until they are ended", made)
	}
	eventually(t, "all connections to providers that have gone are ended", func() bool {
		left, _ := connections()
		return left == 0
	})
	if _, left := connections(); left != others {
		t.Errorf("of %d connections to the provider that stays %d are left", others, left)
	}

	// A flush for a service without providers does not affect other services.
	toFirst := func() int { return strings.Count(n.Appctl("dpctl/dump-conntrack"), "dst=10.1.0.100,") }
	first := toFirst()
	r.give(drivers.Change{Set: all(0).Set[:1]})
	eventually(t, "connections to a service without providers are ended", func() bool { return toFirst() == 0 })
	if _, left := connections(); first == 0 || left != others-first {
		t.Errorf("of %d connections, %d of them to a service without providers, %d are left", others, first, left)
	}
}
