package pipeline

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// inside returns a port with its own providers: all of them for internal clients, and here those on web1's node
// for external clients. It has both IP families.
func inside(protocol uint8, port, target uint16) (all []ServicePort) {
	for i, at := range []netip.Addr{external, external6} {
		here, there := netip.AddrPortFrom(addressesOf(web1)[i], target), netip.AddrPortFrom(addressesOf(web2)[i], target)
		all = append(all,
			ServicePort{Address: at, From: FromPods | FromHost, Protocol: protocol, Port: port, Serving: []netip.AddrPort{here, there}},
			ServicePort{Address: at, From: FromOutside, Protocol: protocol, Port: port, Serving: []netip.AddrPort{here}, Draining: []netip.AddrPort{there}})
	}
	return all
}

// kubeWeb returns a service as Kubernetes has them.
func kubeWeb(more ...ServicePort) Service {
	ports := append(inside(openflow.ProtoTCP, 80, 8080), inside(openflow.ProtoUDP, 53, 5353)...)
	return Service{ID: "k8s/blue/shop/web", VRF: blueVRF, Tag: webBlue.Tag, Inner: wayOut.Prefixes(), Ports: append(ports, more...)}.Numbered(noneTaken)
}

func TestWhoComesFromOutsideMayHaveOtherProviders(t *testing.T) {
	c := startCluster(t, web1, db1, web2)
	host := c.withOutside(web1, kubeWeb())
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	for i, at := range []netip.Addr{external, external6} {
		host.route(at)
		own := OutsideAddress(wayOut.Prefixes()[i], OutsideHost)
		for kind, port := range map[string]int{"tcp": 80, "udp": 53} {
			as := func(a netip.Addr) func(string) netip.Addr { return func(string) netip.Addr { return a } }
			c.askedAs(host, at, kind, port, as(own), []netip.Addr{own}, web1, web2)
			for _, text := range []string{"hello", strings.Repeat("in fragments ", 200)} {
				for _, got := range host.requestsTimes(20, at, kind, port, text, beyond[i]) {
					if !strings.HasPrefix(got, web1.ID+" "+beyond[i].String()+" ") {
						t.Errorf("from outside by %s, %d bytes: %q", kind, len(text), got)
					}
				}
			}
		}
		c.served(db1, at, web1, web2)
	}
}

// Who is served is who is of the kind and in one of the ranges, whichever of both is the smaller one.
func TestARangeOfClientsMayBeLargerOrSmallerThanThoseThatAreServed(t *testing.T) {
	sources := []netip.Prefix{prefix("10.0.0.0/8"), prefix("192.0.2.0/28"), prefix("fd00::/8")}
	for of, want := range map[netip.Prefix][]netip.Prefix{
		{}:                        sources[:2],
		prefix("10.1.0.0/16"):     {prefix("10.1.0.0/16")},
		prefix("192.0.2.0/24"):    {sources[1]},
		prefix("198.51.100.0/24"): nil,
		prefix("192.0.2.4/30"):    {prefix("192.0.2.4/30")},
		prefix("0.0.0.0/0"):       sources[:2],
	} {
		var w Wants
		p := ServicePort{Address: external, Sources: sources}
		p.admit(&w, of, 100, func(priority uint16, m ...openflow.FieldMatch) flowBuilder { return at(tableRouter, priority, m...) })
		var admitted []openflow.Match
		for _, f := range w.Flows {
			if dropped := f.Goto == tableDrop; dropped != (f.Priority == 100) {
				t.Errorf("%s: %+v", of, f)
			} else if !dropped {
				admitted = append(admitted, f.Match)
			}
		}
		var wanted []openflow.Match
		for _, source := range want {
			wanted = append(wanted, openflow.Match{familyOf(source.Addr()).src(source)})
		}
		if diff := cmp.Diff(wanted, admitted); diff != "" {
			t.Errorf("%s: %s", of, diff)
		}
	}
}

// A provider may be a process of the node, or an external machine.
func TestAProviderNeedNotBeAnEndpoint(t *testing.T) {
	c := startCluster(t, web1, db2)
	var ports []ServicePort
	for i, at := range []netip.Addr{external, external6} {
		ports = append(ports,
			ServicePort{Address: at, From: FromPods | FromHost, Protocol: openflow.ProtoTCP, Port: 81, Serving: []netip.AddrPort{netip.AddrPortFrom(beyond[i], 8080)}},
			ServicePort{Address: at, From: FromPods | FromHost, Protocol: openflow.ProtoUDP, Port: 54, Serving: []netip.AddrPort{netip.AddrPortFrom(beyond[i], 5353)}})
	}
	host := c.withOutside(web1, kubeWeb(ports...))
	host.serveShop()
	for i, at := range []netip.Addr{external, external6} {
		host.route(at)
		// The server answers from the address that its route prefers.
		for _, client := range []netip.Addr{c.outsideAddress(web1, at), OutsideAddress(wayOut.Prefixes()[i], beyondNode)} {
			if out, err := host.exec("ip", "route", "add", client.String(), "dev", "contivh0", "src", beyond[i].String()); err != nil {
				t.Fatal(out, err)
			}
		}
		own := OutsideAddress(wayOut.Prefixes()[i], OutsideHost)
		for kind, port := range map[string]int{"tcp": 81, "udp": 54} {
			if got, want := c.pod(web1).requests(at, kind, port, "hello"), "host "+c.outsideAddress(web1, at).String()+" "+at.String(); !strings.HasPrefix(got, want) {
				t.Errorf("an endpoint is answered %q by %s, want %q", got, kind, want)
			}
			for _, from := range []netip.Addr{own, beyond[i]} {
				for _, got := range host.requestsTimes(3, at, kind, port, "hello", from) {
					if want := "host " + OutsideAddress(wayOut.Prefixes()[i], beyondNode).String() + " " + at.String(); !strings.HasPrefix(got, want) {
						t.Errorf("%s, who comes in by the host, is answered %q by %s, want %q", from, got, kind, want)
					}
				}
			}
		}
	}
}

// If there are no providers here, but some elsewhere, packets are dropped without an answer.
func TestAPortMayBeSilent(t *testing.T) {
	silent := Service{ID: "k8s/blue/shop/web", VRF: blueVRF, Tag: webBlue.Tag, Ports: []ServicePort{
		{Address: vip, From: FromPods, Protocol: 6, Port: 80, Silent: true}}}.Numbered(noneTaken)
	text := wantsText(node1(), silent)
	if !strings.Contains(text, "table=24, priority=110,ct_state=+new+trk,tcp,reg3=0x1/0xffff,nw_dst=10.1.1.200,tp_dst=80 actions=load:0x10->NXM_NX_REG0[24..31],goto_table:31") ||
		strings.Contains(text, "group") {
		t.Error(text)
	}
}

// Other clients than those of the port get no answer, wherever they are.
func TestAPortMayServeSomeClientsOnly(t *testing.T) {
	c := startCluster(t, web1, db1)
	ports := inside(openflow.ProtoTCP, 80, 8080)
	for i := range ports {
		ports[i].Serving, ports[i].Draining = ports[i].Serving[:1], nil
		ports[i].Sources = []netip.Prefix{netip.PrefixFrom(web1.IPv4, 32), netip.PrefixFrom(beyond[0], 32), netip.PrefixFrom(beyond[1], 128)}
	}
	s := kubeWeb()
	s.Ports = ports
	host := c.withOutside(web1, s.Numbered(noneTaken))
	c.pod(web1).serveShop()
	host.route(external)
	host.route(external6)
	for _, ask := range []struct {
		client *pod
		at     netip.Addr
		from   []netip.Addr
		served bool
	}{
		{host, external, beyond[:1], true},
		{host, external6, beyond[1:2], true},
		{host, external, []netip.Addr{OutsideAddress(wayOut.Prefix, OutsideHost)}, false},
		{c.pod(web1), external, nil, true},
		{c.pod(db1), external, nil, false},
	} {
		asks := ask.client.requests
		if !ask.served {
			asks = ask.client.deniedRequest
		}
		if got := asks(ask.at, "tcp", 80, "hello", ask.from...); strings.HasPrefix(got, web1.ID) != ask.served {
			t.Errorf("%s asks %s from %v: %q, want an answer: %v", ask.client.ID, ask.at, ask.from, got, ask.served)
		}
	}
}
