package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// kubeNode returns node1 with a pod of the default tenant and an Outside.
func kubeNode(t *testing.T) *node {
	n := newNode(t).
		put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing","pvt-subnet":"172.19.0.0/16"}`).
		put(vrfKey("default"), `{"vrf":1}`).
		put(netKey("default-net.default"), netValue("default", "")).
		put(epKey("default-net.default-1"), epValue("default-net.default", "node1", "10.1.0.2"))
	n.cache.outside = true
	n.step()
	return n
}

const kubeWeb = "k8s/default/shop/web"

func (n *node) kubeService(s mastercfg.K8sService) *node {
	s.Namespace, s.Name = "shop", "web"
	value, _ := json.Marshal(s) // a plain struct
	return n.put(mastercfg.K8sServiceKey("default", "shop", "web"), string(value))
}

func (n *node) backend(port, address, node string) *node {
	value, _ := json.Marshal(mastercfg.K8sBackend{Address: netip.MustParseAddrPort(address), Node: node, Ready: true, Serving: true})
	return n.put(mastercfg.K8sBackendKey("default", "shop", "web", port, netip.MustParseAddrPort(address)), string(value))
}

// served returns the backends by clients and address.
func (n *node) served() (all []string) {
	o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb})
	if err != nil {
		return []string{fault.KindOf(err).String()}
	}
	clients := map[pipeline.Clients]string{pipeline.FromPods: "pods", pipeline.FromPods | pipeline.FromHost: "all", pipeline.FromHost: "host", pipeline.FromOutside: "outside",
		pipeline.FromPods | pipeline.FromTenants: "tenants"}
	for _, p := range o.(pipeline.Service).Ports {
		text := fmt.Sprintf("%s %s %d: %v", clients[p.From], netip.AddrPortFrom(p.Address, p.Port), p.Protocol, p.Serving)
		if p.Silent {
			text += " silent"
		}
		all = append(all, text)
	}
	return all
}

func (n *node) wantServed(want ...string) {
	n.t.Helper()
	n.step()
	if got := n.served(); !slices.Equal(got, want) {
		n.t.Errorf("served\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAServiceOfKubernetesIsServedAtAllItsAddresses(t *testing.T) {
	addr := netip.MustParseAddr
	n := kubeNode(t).backend("http", "10.1.0.2:8080", "node1")
	s := mastercfg.K8sService{Addresses: []netip.Addr{addr("10.96.0.7")}, Ports: []mastercfg.K8sServicePort{{Name: "http", Protocol: "TCP", Port: 80}}}
	n.kubeService(s).wantServed("pods 10.96.0.7:80 6: [10.1.0.2:8080]")
	n.backend("http", "10.1.0.3:8081", "node2").wantServed("pods 10.96.0.7:80 6: [10.1.0.2:8080 10.1.0.3:8081]")
	if len(n.cache.hostAccess().Entrances.Addresses)+len(n.cache.tenants.entered) > 0 {
		t.Error("hosts are led to a service that has no address for them")
	}
	s.Shared = true
	n.kubeService(s).wantServed("tenants 10.96.0.7:80 6: [10.1.0.2:8080 10.1.0.3:8081]")
	if len(n.cache.hostAccess().Entrances.Addresses) > 0 || len(n.cache.tenants.entered) != 1 {
		t.Errorf("entered are %v, and hosts are led to %v", n.cache.tenants.entered, n.cache.hostAccess().Entrances.Addresses)
	}
	s.Shared = false
	s.Ports[0].NodePort, s.External, s.LoadBalancers = 30080, []netip.Addr{addr("198.51.100.1"), addr("fd00::1")}, []netip.Addr{addr("198.51.100.1"), addr("203.0.113.1")}
	both := "[10.1.0.2:8080 10.1.0.3:8081]"
	n.kubeService(s).wantServed("pods 10.96.0.7:80 6: "+both, "all 198.51.100.1:80 6: "+both, "all 203.0.113.1:80 6: "+both, "all 172.19.255.253:30080 6: "+both)
	if in := n.cache.hostAccess().Entrances; len(in.Addresses) != 2 || !slices.Equal(in.NodePorts, []NodePort{{openflow.ProtoTCP, 30080}}) {
		t.Errorf("the host leads %+v", in)
	}
	s.Guest = true
	n.kubeService(s).wantServed("pods 10.96.0.7:80 6: "+both, "pods 198.51.100.1:80 6: "+both, "pods 203.0.113.1:80 6: "+both)
	if in := n.cache.hostAccess().Entrances; len(in.Addresses)+len(in.NodePorts)+len(n.cache.tenants.entered) != 0 {
		t.Errorf("the host leads to another tenant, too: %+v", in)
	}
	s.Guest = false
	s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	n.kubeService(s).step()
	ranges := func() (all []string) {
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb})
		for i := range 3 {
			all = append(all, fmt.Sprint(o.(pipeline.Service).Ports[i].Sources, err))
		}
		return all
	}
	if got := ranges(); !slices.Equal(got, []string{"[] <nil>", "[192.0.2.0/24] <nil>", "[192.0.2.0/24] <nil>"}) { // cluster, external and load balancer, load balancer
		t.Errorf("clients %v", got)
	}
	n.put(mastercfg.K8sNodePrefix+"node1", `{"addresses":["192.0.2.1"]}`)
	if got := ranges()[2]; got != "[172.19.255.254/32 192.0.2.0/24] <nil>" {
		t.Errorf("with the node among them: %v", got)
	}
	n.put(mastercfg.K8sNodePrefix+"node1", `{"addresses":["192.0.2.1","2001:db8::1"]}`)
	if got := fmt.Sprint(n.cache.sources([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:1::/64")}, false)); got != "[172.19.255.254/32 192.0.2.0/24 2001:db8:1::/64]" {
		t.Errorf("with its address of one version of IP among them: %v", got)
	}
	s.SourceRanges = append(s.SourceRanges, netip.MustParsePrefix("0.0.0.0/0"))
	if got := n.kubeService(s).step(); ranges()[2] != "[] <nil>" {
		t.Errorf("everybody: %v, %v", ranges(), got)
	}
	s.External, s.ExternalLocal, s.InternalLocal, s.LoadBalancers = nil, true, true, nil
	n.kubeService(s).wantServed("pods 10.96.0.7:80 6: [10.1.0.2:8080]", "all 172.19.255.253:30080 6: "+both, "outside 172.19.255.253:30080 6: [10.1.0.2:8080]")
	n.del(mastercfg.K8sBackendKey("default", "shop", "web", "http", netip.MustParseAddrPort("10.1.0.2:8080")))
	n.wantServed("pods 10.96.0.7:80 6: [] silent", "all 172.19.255.253:30080 6: [10.1.0.3:8081]", "outside 172.19.255.253:30080 6: [] silent")
	n.del(mastercfg.K8sServiceKey("default", "shop", "web")).wantServed("not-found")
	n.del(mastercfg.K8sBackendKey("default", "shop", "web", "http", netip.MustParseAddrPort("10.1.0.3:8081"))).step()
	if len(n.cache.services.groups)+len(n.cache.tenants.entered)+len(n.cache.kube.backends)+len(n.cache.kube.servicesOf) > 0 {
		t.Errorf("left: %v, %v, %v, %v", n.cache.services.groups, n.cache.tenants.entered, n.cache.kube.backends, n.cache.kube.servicesOf)
	}
}

// Hosts are neighbours of pods in the default tenant only: to cluster addresses of other tenants they go through
// the Outside.
func TestTheHostIsLedToClusterAddressesOfOtherTenants(t *testing.T) {
	addr := netip.MustParseAddr
	n := kubeNode(t).put(vrfKey("blue"), `{"vrf":2}`).put(netKey("web.blue"), netValue("blue", ""))
	const id = "blue/shop/web"
	put := func(s mastercfg.K8sService) {
		s.Namespace, s.Name, s.Ports = "shop", "web", []mastercfg.K8sServicePort{{Protocol: "TCP", Port: 443}}
		value, _ := json.Marshal(s) // a plain struct
		n.put(mastercfg.K8sServicePrefix+id, string(value)).step()
	}
	for _, c := range []struct {
		about   string
		service mastercfg.K8sService
		from    pipeline.Clients
		led     string
	}{
		{"a service", mastercfg.K8sService{}, pipeline.FromPods | pipeline.FromHost, "[10.96.0.7]"},
		{"one that is shared, to which they come as pods of the default tenant do", mastercfg.K8sService{Shared: true}, pipeline.FromPods | pipeline.FromTenants, "[]"},
		{"one whose hosts get the backends of another tenant", mastercfg.K8sService{Guest: true}, pipeline.FromPods, "[]"},
	} {
		c.service.Addresses = []netip.Addr{addr("10.96.0.7")}
		put(c.service)
		in := n.cache.hostAccess().Entrances
		if got := fmt.Sprint(in.Cluster); got != c.led || len(in.Addresses) > 0 {
			t.Errorf("%s: the host is led to %s, and who comes in by it to %v: want %s", c.about, got, in.Addresses, c.led)
		}
		if o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: kubeID + id}); !c.service.Guest && (err != nil || o.(pipeline.Service).Ports[0].From != c.from) {
			t.Errorf("%s: %+v, %v", c.about, o, err)
		}
	}
	n.del(mastercfg.K8sServicePrefix + id).step()
	if in := n.cache.hostAccess().Entrances; len(in.Cluster)+len(n.cache.tenants.entered) > 0 {
		t.Errorf("left: %+v, %v", in, n.cache.tenants.entered)
	}
}

// A range of all IPv4 addresses does not close the service to IPv6; a smaller one does.
func TestARangeOfEverybodyIsNone(t *testing.T) {
	n := kubeNode(t)
	for text, want := range map[string][2]string{ // for IPv4 and IPv6
		"":                        {"[]", "[]"},
		"0.0.0.0/0":               {"[]", "[]"},
		"::/0":                    {"[]", "[]"},
		"0.0.0.0/0 10.0.0.0/8":    {"[]", "[]"},
		"0.0.0.0/0 2001:db8::/32": {"[]", "[0.0.0.0/0 2001:db8::/32]"},
		"::/0 10.0.0.0/8":         {"[10.0.0.0/8 ::/0]", "[]"},
		"10.0.0.0/8":              {"[10.0.0.0/8]", "[10.0.0.0/8]"},
		"2001:db8::/32":           {"[2001:db8::/32]", "[2001:db8::/32]"},
	} {
		var ranges []netip.Prefix
		for _, r := range strings.Fields(text) {
			ranges = append(ranges, netip.MustParsePrefix(r))
		}
		for i, ipv4 := range []bool{true, false} {
			if got := fmt.Sprint(n.cache.sources(ranges, ipv4)); got != want[i] {
				t.Errorf("%q, IPv4 %v: %s, want %s", text, ipv4, got, want[i])
			}
		}
	}
}

// A service may be reached through any network of its tenant; without one it waits.
func TestAServiceOfKubernetesWaitsForANetworkOfItsTenant(t *testing.T) {
	n := kubeNode(t).kubeService(mastercfg.K8sService{Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, Ports: []mastercfg.K8sServicePort{{Protocol: "UDP", Port: 53}}})
	n.wantServed("pods 10.96.0.7:53 17: []")
	n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"bridge","pvt-subnet":"172.19.0.0/16"}`).wantServed("missing-reference")
	if _, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb}); err == nil || !strings.Contains(err.Error(), "forwarding mode bridge") {
		t.Errorf("in forwarding mode bridge: %v, which does not name the mode", err)
	}
	n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing","pvt-subnet":"172.19.0.0/16"}`).wantServed("pods 10.96.0.7:53 17: []")
	n.put(netKey("a.default"), netValue("default", "")).put(epKey("a.default-1"), epValue("a.default", "node1", "10.1.0.3")).step()
	n.del(netKey("default-net.default")).wantServed("pods 10.96.0.7:53 17: []")
	n.del(vrfKey("default")).wantServed("missing-reference")
}

// The host reaches the ranges of services by its interface among the pods, and the switch knows them.
func TestTheHostIsLedToTheRangesOfServices(t *testing.T) {
	n := kubeNode(t).
		put(netKey("contivh1.default"), netValue("default", `,"nwType":"infra"`)).
		put(mastercfg.K8sRangesKey, `{"ranges":["10.96.0.0/16","fd00:96::/108"]}`)
	n.step()
	from := n.cache.networks["contivh1.default"].part
	got := n.cache.reachedFrom(from)
	if !slices.Contains(got, netip.MustParsePrefix("10.96.0.0/16")) || slices.Contains(got, netip.MustParsePrefix("fd00:96::/108")) != from.Gateway6.IsValid() {
		t.Errorf("the host reaches %v", got)
	}
	served := func() []netip.Prefix {
		o, _ := n.planner.given[pipeline.Key{Kind: pipeline.KindOutside, ID: OutsideID}].(pipeline.Outside)
		return o.Ranges
	}
	if got := served(); fmt.Sprint(got) != "[10.96.0.0/16 fd00:96::/108]" {
		t.Errorf("the switch knows the ranges %v", got)
	}
	n.del(mastercfg.K8sRangesKey).step()
	if got := served(); got != nil {
		t.Errorf("the switch knows the ranges %v", got)
	}
	if got := n.cache.reachedFrom(from); slices.Contains(got, netip.MustParsePrefix("10.96.0.0/16")) {
		t.Errorf("the host reaches %v", got)
	}
}

// Pods isolated by policies reach their own node, but not ports of it that lead elsewhere.
func TestTheSwitchKnowsItsNodeAndThePortsThatLeadElsewhere(t *testing.T) {
	n := kubeNode(t)
	knows := func(when, want string) {
		t.Helper()
		n.step()
		o, _ := n.planner.given[pipeline.Key{Kind: pipeline.KindOutside, ID: OutsideID}].(pipeline.Outside)
		if got := fmt.Sprint(o.Own, o.Led); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	n.kubeService(mastercfg.K8sService{Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, Ports: []mastercfg.K8sServicePort{{Protocol: "UDP", Port: 53, NodePort: 30053}}})
	knows("a node that Kubernetes does not know", "[] []")
	n.put(mastercfg.K8sNodePrefix+"node2", `{"addresses":["192.0.2.2"]}`)
	knows("another node", "[] []")
	n.put(mastercfg.K8sNodePrefix+"node1", `{"addresses":["192.0.2.1","2001:db8::1"]}`)
	knows("this node", "[192.0.2.1 2001:db8::1] [{17 30053 30053}]")
	n.put(mastercfg.K8sPodKey("node1", "u1"), `{"uid":"u1","hostPorts":[{"protocol":"tcp","port":8080,"to":80},{"address":"192.0.2.1","protocol":"sctp","port":7,"to":7}]}`)
	knows("a pod with host ports that is not attached yet, as one that is refused never is", "[192.0.2.1 2001:db8::1] [{17 30053 30053}]")
	n.put(epKey("default-net.default-2"), podEndpoint("default-net.default", "node2", "10.1.0.3", "u1"))
	knows("its endpoint is not here", "[192.0.2.1 2001:db8::1] [{17 30053 30053}]")
	n.put(epKey("default-net.default-2"), podEndpoint("default-net.default", "node1", "10.1.0.3", "u1"))
	knows("it is attached", "[192.0.2.1 2001:db8::1] [{6 8080 8080} {17 30053 30053} {132 7 7}]")
	n.put(mastercfg.K8sPodKey("node1", "u3"), `{"uid":"u3","hostPorts":[{"protocol":"tcp","port":8080,"to":80},{"protocol":"tcp","port":8443,"to":443}]}`)
	knows("another one wants a port of it, and is refused", "[192.0.2.1 2001:db8::1] [{6 8080 8080} {17 30053 30053} {132 7 7}]")
	n.del(epKey("default-net.default-2"))
	knows("it ends", "[192.0.2.1 2001:db8::1] [{17 30053 30053}]")
	n.put(epKey("default-net.default-3"), podEndpoint("default-net.default", "node1", "10.1.0.4", "u3"))
	knows("the other one is attached", "[192.0.2.1 2001:db8::1] [{6 8080 8080} {6 8443 8443} {17 30053 30053}]")
	n.put(mastercfg.K8sPodKey("node2", "u2"), `{"uid":"u2","hostPorts":[{"protocol":"tcp","port":9090,"to":80}]}`)
	n.put(epKey("default-net.default-4"), podEndpoint("default-net.default", "node2", "10.1.0.5", "u2"))
	n.del(mastercfg.K8sPodKey("node1", "u3"))
	knows("it goes, and one of another node comes", "[192.0.2.1 2001:db8::1] [{17 30053 30053}]")
	n.del(mastercfg.K8sServiceKey("default", "shop", "web"))
	knows("the service goes", "[192.0.2.1 2001:db8::1] []")
	n.put(mastercfg.K8sNodePrefix+"node1", `{"addresses":["192.0.2.1"]}`)
	knows("an address goes", "[192.0.2.1] []")
	n.del(mastercfg.K8sNodePrefix + "node1")
	knows("the node goes", "[] []")
}

// The host needs the health ports of services for load balancers.
func TestAHostIsToldItsHealthPorts(t *testing.T) {
	n := kubeNode(t)
	n.changed()
	s := mastercfg.K8sService{Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, HealthPort: 30999,
		Ports: []mastercfg.K8sServicePort{{Name: "http", Protocol: "TCP", Port: 80, NodePort: 30080}}}
	n.kubeService(s)
	if got := n.cache.hostAccess().HealthPorts; !slices.Equal(got, []uint16{30999}) || !n.changed() {
		t.Errorf("health ports %v", got)
	}
	n.del(mastercfg.K8sServiceKey("default", "shop", "web"))
	if got := n.cache.hostAccess().HealthPorts; len(got) != 0 || !n.changed() {
		t.Errorf("health ports %v of no service", got)
	}
}

// A service has a record for each tenant with pods behind it; health checks are about the one that hosts reach.
func TestLoadBalancersAskAboutTheBackendsThatHostsReach(t *testing.T) {
	n := kubeNode(t)
	for _, text := range []string{"10.1.0.2:8080", "[fd00:1::2]:8080"} { // of one pod
		at := netip.MustParseAddrPort(text)
		backend, _ := json.Marshal(mastercfg.K8sBackend{Address: at, Node: "node1", Ready: true, Serving: true}) // a plain struct
		n.put(mastercfg.K8sBackendKey("blue", "shop", "web", "http", at), string(backend))
	}
	entered := func(tenant string, guest bool) {
		value, _ := json.Marshal(mastercfg.K8sService{Namespace: "shop", Name: "web", HealthPort: 30999, Guest: guest}) // likewise
		n.put(mastercfg.K8sServiceKey(tenant, "shop", "web"), string(value))
	}
	wants := func(backends int) {
		t.Helper()
		for range 50 {
			if got := n.cache.kubeHealth().Ports; len(got) != 1 || got[30999].Backends != backends {
				t.Fatalf("health %+v, want %d backends", got, backends)
			}
		}
		if got := n.cache.healthPorts(); !slices.Equal(got, []uint16{30999}) {
			t.Errorf("health ports %v", got)
		}
	}
	entered("default", true)
	entered("blue", false)
	wants(1)
	entered("default", false) // hosts now reach the other one
	entered("blue", true)
	wants(0)
}

// mixed returns the addresses at which a service shares UDP with another one.
func (n *node) mixed(id string) (at []netip.Addr) {
	n.t.Helper()
	n.step()
	o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: id})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, p := range o.(pipeline.Service).Ports {
		if p.Mixed {
			at = append(at, p.Address)
		}
	}
	return at
}

// Two services have UDP ports at one external address: later fragments may be for either of them. Both must know
// that, whichever was added first, and when one of them is removed.
func TestServicesThatShareAnAddressKnowOfEachOther(t *testing.T) {
	n := kubeNode(t)
	external := []netip.Addr{netip.MustParseAddr("198.51.100.1")}
	put := func(name, protocol, address string, port uint16) {
		value, _ := json.Marshal(mastercfg.K8sService{Namespace: "shop", Name: name, Addresses: []netip.Addr{netip.MustParseAddr(address)},
			External: external, Ports: []mastercfg.K8sServicePort{{Name: "dns", Protocol: protocol, Port: port}}}) // a plain struct
		n.put(mastercfg.K8sServiceKey("default", "shop", name), string(value))
	}
	mixed := func(want bool) {
		t.Helper()
		if changed := n.step(); !slices.Contains(changed, "+service "+kubeWeb) {
			t.Errorf("the service does not change: %v", changed)
		}
		if at := n.mixed(kubeWeb); want != slices.Equal(at, external) || !want && at != nil {
			t.Errorf("mixed at %v", at)
		}
	}
	put("web", "UDP", "10.96.0.7", 53)
	mixed(false)
	put("other", "UDP", "10.96.0.8", 54)
	mixed(true)
	put("other", "TCP", "10.96.0.8", 54)
	mixed(false)
	put("other", "UDP", "10.96.0.8", 54)
	mixed(true)
	n.del(mastercfg.K8sServiceKey("default", "shop", "other"))
	mixed(false)
}

// The same for a service of contiv's own with UDP at the external address of a Kubernetes service.
func TestServicesOfBothSortsThatShareAnAddressKnowOfEachOther(t *testing.T) {
	n := kubeNode(t)
	external := netip.MustParseAddr("198.51.100.1")
	own := func(name, address string, port uint16) {
		n.put(mastercfg.ServiceLBPrefix+name+":default", fmt.Sprintf(`{"servicename":%q,"tenantname":"default","subnet":"default-net","ipaddress":%q,`+
			`"externalIPs":["198.51.100.1"],"nodePorts":["30053:%d:udp"],"ports":["%d:5353:udp"]}`, name, address, port, port))
	}
	want := []netip.Addr{external}
	own("a", "10.1.0.101", 53)
	if got := n.mixed("a:default"); got != nil {
		t.Errorf("alone, it is mixed at %v", got)
	}
	own("b", "10.1.0.102", 54)
	if a, b := n.mixed("a:default"), n.mixed("b:default"); !slices.Equal(a, want) || !slices.Equal(b, want) {
		t.Errorf("two of contiv's own are mixed at %v and %v", a, b)
	}
	n.del(mastercfg.ServiceLBPrefix + "b:default")
	n.kubeService(mastercfg.K8sService{Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, External: want,
		Ports: []mastercfg.K8sServicePort{{Name: "dns", Protocol: "UDP", Port: 54}}})
	if a, b := n.mixed("a:default"), n.mixed(kubeWeb); !slices.Equal(a, want) || !slices.Equal(b, want) {
		t.Errorf("one of each sort are mixed at %v and %v", a, b)
	}
	n.del(mastercfg.ServiceLBPrefix + "a:default")
	if got := n.mixed(kubeWeb); got != nil {
		t.Errorf("alone, it is mixed at %v", got)
	}
}

// Errors about answers from node ports are matched to connections of the only tenant with node ports, or of the
// tenant that has the port number.
func TestTheHostsPortKnowsWhoseNodePortsAre(t *testing.T) {
	n := kubeNode(t).put(vrfKey("red"), `{"vrf":2}`)
	entered := func() uint16 {
		t.Helper()
		n.step()
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindOutside, ID: OutsideID})
		if err != nil {
			t.Fatal(err)
		}
		return o.(pipeline.Outside).Entered
	}
	s := mastercfg.K8sService{Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, Ports: []mastercfg.K8sServicePort{{Name: "http", Protocol: "TCP", Port: 80}}}
	if got := n.kubeService(s); entered() != 0 {
		t.Errorf("without a node port: %d, %v", entered(), got)
	}
	s.Ports[0].NodePort = 30080
	if n.kubeService(s); entered() != 1 {
		t.Errorf("with one: %d", entered())
	}
	n.put(mastercfg.ServiceLBPrefix+"a:red", `{"servicename":"a","tenantname":"red","subnet":"web","ipaddress":"10.1.0.101","nodePorts":["30053:53:udp"],"ports":["53:5353:udp"]}`)
	if got := entered(); got != 0 {
		t.Errorf("of two tenants: %d", got)
	}
	a := &Agent{cache: n.cache}
	for _, c := range []struct {
		protocol uint8
		port     uint16
		vrf      uint16
	}{{openflow.ProtoTCP, 30080, 1}, {openflow.ProtoUDP, 30053, 2}, {openflow.ProtoUDP, 30080, 0}, {openflow.ProtoUDP, 53, 0}} {
		if got := a.NodePortVRF(c.protocol, c.port); got != c.vrf {
			t.Errorf("node port %d of protocol %d is in VRF %d, want %d", c.port, c.protocol, got, c.vrf)
		}
	}
	if n.del(mastercfg.K8sServiceKey("default", "shop", "web")); entered() != 2 {
		t.Errorf("of the other one: %d", entered())
	}
	if got := a.NodePortVRF(openflow.ProtoTCP, 30080); got != 0 {
		t.Errorf("a node port that has gone is in VRF %d", got)
	}
}
