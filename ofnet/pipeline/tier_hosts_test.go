package pipeline

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

func TestTheHostOfAnEndpointIsNotJudged(t *testing.T) {
	c := startCluster(t, web1, web2, db1)
	for _, e := range []Endpoint{web1, web2, db1} {
		c.pod(e).serve(80)
	}
	host := c.withOutside(web1)
	c.judge(map[string]Tiers{web1.ID: isolated, web2.ID: isolated}) // without an Outside
	n := c.pod(web1).node
	own := OutsideAddress(wayOut.Prefix, OutsideHost)
	wants := c.wants(n, wayOut, Epoch{Number: 9}).chosen()
	n.replace(t, wants)
	if got := host.pinged(OutsideAddress(wayOut.Prefix, c.pod(web1).port)); got == 0 {
		t.Errorf("the host, as %s, does not reach its endpoint", own)
	}
	for from, want := range map[netip.Addr]bool{own: false, PodsAsHost(wayOut.Prefix): true} {
		if got := n.verdict(t, packet{inPort: host.port, src: wayOut.MAC, dst: wayOut.MAC, from: from, to: OutsideAddress(wayOut.Prefix, c.pod(web1).port)}); strings.HasSuffix(got, "drop") != want {
			t.Errorf("from %s to an isolated endpoint: %s, want it dropped: %v", from, got, want)
		}
	}
	if got := c.pod(web1).ping(beyond[0]); got != 0 {
		t.Error("an isolated endpoint reaches the world")
	}

	// An endpoint that is the host: for the endpoints of its node, not for those of others.
	for _, e := range []Endpoint{web2, db1} {
		c.pod(e).Host = true
	}
	c.judge(map[string]Tiers{web1.ID: isolated})
	if c.pod(web2).connects(web1.IPv4, 80, false) {
		t.Error("the host of another node is not judged")
	}
	if !c.pod(db1).connects(web1.IPv4, 80, true) || !c.pod(web1).connects(db1.IPv4, 80, true) {
		t.Error("the host does not reach its endpoint, or is not reached")
	}
}

// The provider is evaluated, not the service, and answers come back.
func TestAServiceLeadsToIsolatedProviders(t *testing.T) {
	c := startCluster(t, web1, db1, web2, db2)
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	tiers := map[string]Tiers{web1.ID: isolated, web2.ID: isolated, db1.ID: JudgesOut | IsolatesOut}
	c.classify(tiers)
	rules := []Object{Epoch{Number: 5}, serving(FromPods, addressesOf(web1, web2), vip, vip6)}
	for i, r := range []TierRule{
		allowing(false, classWeb1, withPeers(classDB1, classDB2), withPorts(PortRange{6, 8080, 8080}, PortRange{17, 5353, 5353})),
		allowing(false, classWeb2, withPeers(classDB1, classDB2)),
		allowing(true, classDB1, withPeers(classWeb1, classWeb2), withPorts(PortRange{6, 8080, 8080}, PortRange{17, 5353, 5353})),
	} {
		r.Number, r.ID = uint32(i+1), fmt.Sprint(i)
		rules = append(rules, r)
	}
	for _, n := range c.nodes {
		n.replace(t, c.wants(n, rules...).chosen())
	}
	for _, a := range []netip.Addr{vip, vip6} {
		c.served(db1, a, web1, web2)
		c.served(db2, a, web1, web2)
	}
}

// An endpoint isolated by policies reaches its own node, but ports that lead elsewhere only if one of its own
// rules allows it; the tiers of the cluster's owner evaluate that as usual. An endpoint with the node's address in
// a tenant's network is not the node.
func TestIsolatedEndpointsReachTheirOwnNode(t *testing.T) {
	const ssh, led = 22, 30080
	c := startCluster(t, web1, db2)
	host := c.withOutside(web1)
	for _, port := range []uint16{ssh, led} {
		host.serve(port)
	}
	c.pod(db2).serve(ssh)
	way := wayOut
	way.Led = []PortRange{{openflow.ProtoTCP, led, led}}
	way.Own = slices.Clone(beyond)
	judge := func(tiers Tiers, own []netip.Addr, rules ...TierRule) {
		c.epoch++
		c.classify(map[string]Tiers{web1.ID: tiers})
		way.Own = own
		objects := []Object{way, Epoch{Number: c.epoch}}
		for i, r := range rules {
			r.Number, r.ID = uint32(i+1), fmt.Sprint("r", i)
			objects = append(objects, r)
		}
		for _, n := range c.nodes {
			n.replace(t, c.wants(n, objects...).chosen())
		}
	}
	reaches := func(when string, to netip.Addr, port uint16, want bool) {
		t.Helper()
		if got := c.pod(web1).connects(to, port, want); got != want {
			t.Errorf("%s: %s:%d: %v, want %v", when, to, port, got, want)
		}
	}
	nobody, everywhere := inTier(FirstTier, 0, Deny), inTier(LastTier, 0, Deny)
	for _, a := range beyond {
		judge(isolated, nil)
		reaches("an address that is not the node's", a, ssh, false)
		judge(isolated, beyond)
		reaches("isolated", a, ssh, true)
		reaches("isolated", a, led, false)
		judge(isolated, beyond, allowing(true, classWeb1, withNets(inet.Host(a))))
		reaches("a policy allows the node", a, led, true)
		judge(isolated, beyond, allowing(true, classWeb1, everywhere))
		reaches("what policies allow, the last tier is not asked about", a, ssh, true)
		judge(isolated, beyond, allowing(true, classWeb1, nobody))
		reaches("the first tier denies", a, ssh, false)
		judge(JudgesOut, beyond, allowing(true, classWeb1, everywhere))
		reaches("the last tier denies", a, ssh, false)
	}
	judge(isolated, []netip.Addr{db2.IPv4, db2.IPv6})
	for _, a := range []netip.Addr{db2.IPv4, db2.IPv6} {
		reaches("another endpoint has the node's address", a, ssh, false)
	}

	judge(isolated, beyond)
	conn := c.calls(web1, host, beyond[0], 7000)
	judge(isolated, beyond)
	if !says(1, conn.server, conn.client, soon) || !says(2, conn.client, conn.server, soon) {
		t.Error("another epoch, and the node speaks first: the connection has ended")
	}
}

// What the node sends to an isolated provider of its own, at a port of the service and with one of the node's
// addresses, is the node's own; what comes from outside on the same path is evaluated, and so is what the node
// sends to providers of other nodes.
func TestTheNodeReachesItsIsolatedProvidersByAnyOfItsAddresses(t *testing.T) {
	const talking = 7000
	c := startCluster(t, web1, web2)
	host := c.withOutside(web1)
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	judge := func(provider Endpoint, own []netip.Addr, rules ...TierRule) {
		c.epoch++
		c.classify(map[string]Tiers{web1.ID: isolated, web2.ID: isolated})
		way := wayOut
		way.Own = own
		shop := serving(FromPods|FromHost|FromOutside, addressesOf(provider), external, external6)
		shop.Ports = append(shop.Ports, ServicePort{Address: external, From: shop.Ports[0].From, Protocol: openflow.ProtoTCP, Port: talking, Target: talking})
		objects := []Object{way, Epoch{Number: c.epoch}, shop.Numbered(noneTaken)}
		for i, r := range rules {
			r.Number, r.ID = uint32(i+1), fmt.Sprint("r", i)
			objects = append(objects, r)
		}
		for _, n := range c.nodes {
			n.replace(t, c.wants(n, objects...).chosen())
		}
	}
	for i, at := range []netip.Addr{external, external6} {
		host.route(at)
		asks := func(when string, want bool) {
			t.Helper()
			for kind, port := range map[string]int{"tcp": 80, "udp": 53} {
				ask := host.requests
				if !want {
					ask = host.deniedRequest
				}
				if got := ask(at, kind, port, "hello", beyond[i]); strings.HasPrefix(got, "error") == want {
					t.Errorf("%s: %s by %s: %s", when, at, kind, got)
				}
			}
		}
		judge(web1, nil)
		asks("from an address that is not the node's", false)
		judge(web1, beyond)
		asks("from an address of the node", true)
		judge(web1, beyond, allowing(false, classWeb1, inTier(FirstTier, 0, Deny)))
		asks("though the first tier denies", true)
		judge(web2, beyond)
		asks("a provider of another node", false)
	}
	judge(web1, beyond)
	as := net.Dialer{Timeout: soon, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(beyond[0], 0))}
	conn := c.callsAt(host, as, netip.AddrPortFrom(external, talking), c.pod(web1), netip.AddrPortFrom(web1.IPv4, talking))
	judge(web1, beyond)
	if !says(1, conn.server, conn.client, soon) || !says(2, conn.client, conn.server, soon) {
		t.Error("another epoch, and the provider speaks first: the connection has ended")
	}
}

// A host reaches isolated providers of its own node and of others if it may: the connection tracker of the
// provider's node sees both directions.
func TestAServiceLeadsTheHostToIsolatedProvidersOfOtherNodes(t *testing.T) {
	c := startCluster(t, web1, web2)
	c.classify(map[string]Tiers{web1.ID: isolated, web2.ID: isolated})
	objects := []Object{serving(FromPods|FromHost, addressesOf(web1, web2), external, external6), Epoch{Number: 7}}
	for i, class := range []uint16{classWeb1, classWeb2} {
		r := allowing(false, class, withPorts(PortRange{6, 8080, 8080}, PortRange{17, 5353, 5353}))
		r.Number, r.ID = uint32(i+1), fmt.Sprint(i)
		objects = append(objects, r)
	}
	host := c.withOutside(web1)
	for _, n := range c.nodes {
		n.replace(t, c.wants(n, append(objects, wayOut)...).chosen())
	}
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	for i, at := range []netip.Addr{external, external6} {
		host.route(at)
		for _, from := range []netip.Addr{OutsideAddress(wayOut.Prefixes()[i], OutsideHost), beyond[i]} {
			for kind, port := range map[string]int{"tcp": 80, "udp": 53} {
				c.askedAs(host, at, kind, port, func(string) netip.Addr { return from }, []netip.Addr{from}, web1, web2)
			}
		}
	}
}

// An endpoint with the node's address in a tenant's network is not the node: an isolated endpoint's answers on a
// connection of it do not make its packets pass.
func TestAnEndpointWithAnAddressOfTheNodeIsJudged(t *testing.T) {
	c := startCluster(t, web1, db2)
	judge := func(tiers Tiers) {
		c.epoch++
		c.classify(map[string]Tiers{web1.ID: tiers})
		way := wayOut
		way.Own = []netip.Addr{db2.IPv4, db2.IPv6}
		for _, n := range c.nodes {
			n.replace(t, c.wants(n, way, Epoch{Number: c.epoch}).chosen())
		}
	}
	c.withOutside(web1)
	judge(Tracked)
	talk := c.connect(db2, web1, 7000)
	judge(isolated)
	if says('a', talk.server, talk.client, never) {
		t.Error("what the isolated endpoint answers arrives")
	}
	if says('b', talk.client, talk.server, never) {
		t.Error("the isolated endpoint is reached by a connection that it has answered")
	}
}
