package pipeline

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestTheGatewayAnswersPingsWhateverThePolicy(t *testing.T) {
	c := startCluster(t, web1, red1)
	c.program(rule("deny-everything", 100, func(*Rule) {}))

	for _, test := range []struct {
		name string
		from Endpoint
		to   netip.Addr
		want int
	}{
		{"its own gateway", web1, webBlue.Gateway, freshTTL},
		{"its own gateway, IPv6", web1, webBlue.Gateway6, freshTTL},
		{"the gateway of another network of the tenant", web1, dbBlue.Gateway, freshTTL},
		{"the gateway of another network of the tenant, IPv6", web1, dbBlue.Gateway6, freshTTL},
		{"a gateway with the same address in another tenant", red1, webRed.Gateway, freshTTL},
		{"the gateway of another tenant", red1, dbBlue.Gateway, 0},
		{"the gateway of another tenant, IPv6", red1, dbBlue.Gateway6, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // those that wait in vain do so at the same time
			if got := c.pod(test.from).pings(test.to, test.want); got != test.want {
				t.Errorf("TTL of the answer is %d, want %d (0: no answer)", got, test.want)
			}
		})
	}
}

// A network without a gateway reaches only itself and is reached only by itself, whatever MAC a sender uses.
func TestANetworkWithoutAGatewayIsIsolated(t *testing.T) {
	c := startCluster(t, web1, web2, db1, db2)
	alone := dbBlue
	alone.Gateway, alone.Gateway6 = netip.Addr{}, netip.Addr{}
	c.networks = []Network{webBlue, alone, webRed}
	c.program(shop(web2.IPv4))
	web, db := c.pod(web1).wire(), c.pod(db1).wire()

	for _, to := range []Endpoint{db1, db2} {
		web.send(udpFrame(AnycastMAC, web1.MAC, to.IPv4, web1.IPv4, "stray"))
		web.send(udpFrame(AnycastMAC, web1.MAC, to.IPv6, web1.IPv6, "stray"))
	}
	db.send(echoFrame(AnycastMAC, db1.MAC, vip, db1.IPv4))
	db.send(udpFrame(AnycastMAC, db1.MAC, vip, db1.IPv4, "stray"))
	for _, to := range []Endpoint{web1, web2, db2} {
		db.send(udpFrame(AnycastMAC, db1.MAC, to.IPv4, db1.IPv4, "stray"))
		db.send(udpFrame(AnycastMAC, db1.MAC, to.IPv6, db1.IPv6, "stray"))
	}
	c.expectFence(web, []*wire{c.pod(web2).wire()}, "stray")
	c.expectFence(db, []*wire{c.pod(db2).wire()}, "stray")
	if got := db.receive(never, func(frame []byte) bool { src, _ := ends(frame); return src == vip }); got != nil {
		t.Errorf("a service answers: %x", got)
	}
	for _, w := range []*wire{web, db} {
		if got := w.receive(never, carrying("stray")); got != nil {
			t.Errorf("%s got %x", w.pod.ID, got)
		}
	}
	n := c.pod(web1).node
	for what, p := range map[string]packet{
		"a ping for another network's gateway": {inPort: c.pod(db1).port, src: db1.MAC, dst: AnycastMAC, from: db1.IPv4, to: webBlue.Gateway, kind: "icmp,icmp_type=8,nw_ttl=64"},
		"from the web":                         {inPort: c.pod(web1).port, src: web1.MAC, dst: AnycastMAC, from: web1.IPv4, to: db1.IPv4},
		"to the web":                           {inPort: c.pod(db1).port, src: db1.MAC, dst: AnycastMAC, from: db1.IPv4, to: web1.IPv4},
	} {
		if got := n.verdict(t, p); got != "drop" {
			t.Errorf("%s: %s", what, got)
		}
	}
	if got := c.pod(db1).pinged(db2.IPv4); got != 64 {
		t.Errorf("inside the network: TTL %d", got)
	}
}

// A gateway of one IP family routes that family only.
func TestAnIPv4GatewayDoesNotRouteIPv6(t *testing.T) {
	c := startCluster(t, web1, db1)
	four := dbBlue
	four.Gateway6 = netip.Addr{}
	c.networks = []Network{webBlue, four}
	c.program()
	n := c.pod(web1).node
	there := packet{inPort: c.pod(web1).port, src: web1.MAC, dst: AnycastMAC, from: web1.IPv4, to: db1.IPv4}
	if got := n.verdict(t, there); got == "drop" {
		t.Error("IPv4 is not routed")
	}
	six := fmt.Sprintf("udp6,in_port=%d,dl_src=02:02:0a:01:01:01,dl_dst=00:00:11:11:11:11,ipv6_src=%s,ipv6_dst=%s,nw_ttl=64", c.pod(web1).port, web1.IPv6, db1.IPv6)
	if got := n.Appctl("ofproto/trace", bridge, six); !strings.Contains(got, "Datapath actions: drop") {
		t.Errorf("IPv6 is routed:\n%s", got)
	}
}
