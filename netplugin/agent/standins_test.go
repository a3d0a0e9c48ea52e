package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A load balancer may add its address to an interface of the host, and move it to another host. While it is here,
// clients that come to the host are served at the address that stands in for it; the ports at the address remain
// unchanged, with their groups.
func TestAnAddressOfLoadBalancersOnTheHostIsServedThereByAnother(t *testing.T) {
	addr := netip.MustParseAddr
	n := kubeNode(t).backend("http", "10.1.0.2:8080", "node1").backend("http", "10.1.0.3:8080", "node2")
	vip := addr("203.0.113.1")
	n.kubeService(mastercfg.K8sService{Addresses: []netip.Addr{addr("10.96.0.7")}, External: []netip.Addr{addr("198.51.100.1")}, LoadBalancers: []netip.Addr{vip}, ExternalLocal: true,
		SourceRanges: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Ports: []mastercfg.K8sServicePort{{Name: "http", Protocol: "TCP", Port: 80}}})
	const both, one = "[10.1.0.2:8080 10.1.0.3:8080]", "[10.1.0.2:8080]"
	elsewhere := []string{"pods 10.96.0.7:80 6: " + both, "all 198.51.100.1:80 6: " + both, "outside 198.51.100.1:80 6: " + one, "all 203.0.113.1:80 6: " + both, "outside 203.0.113.1:80 6: " + one}
	groups := func() (all []uint32) {
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range o.(pipeline.Service).Ports {
			all = append(all, p.Group)
		}
		return all
	}
	n.wantServed(elsewhere...)
	before := groups()
	if in := n.cache.hostAccess().Entrances; len(in.Balanced) > 0 || fmt.Sprint(in.Addresses) != "[198.51.100.1 203.0.113.1]" {
		t.Errorf("elsewhere: the host leads %+v", in)
	}
	if !n.cache.setStandInAddresses([]netip.Addr{vip, addr("192.0.2.1"), addr("198.51.100.1")}) || n.cache.setStandInAddresses([]netip.Addr{addr("198.51.100.1"), addr("192.0.2.1"), vip}) {
		t.Error("who has other addresses is not told from who has the same")
	}
	if _, marked := n.cache.dirty[pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb}]; !marked || !n.cache.hostDirty {
		t.Error("nobody looks at the service, or at the host")
	}
	in := n.cache.hostAccess().Entrances
	at, _ := in.StandIns.Balancer(netip.MustParsePrefix("172.19.0.0/16"), vip)
	n.wantServed(append(elsewhere, fmt.Sprintf("host %s:80 6: %s", at, both), fmt.Sprintf("outside %s:80 6: %s", at, one))...)
	if fmt.Sprint(in.Balanced) != "[{203.0.113.1 {6 80}}]" || len(in.Addresses) > 0 { // an address of the host that somebody has written down as an external one is not led
		t.Errorf("the host leads %+v", in)
	}
	o, _ := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb})
	for _, p := range o.(pipeline.Service).Ports[5:] {
		if fmt.Sprint(p.Sources) != "[192.0.2.0/24]" {
			t.Errorf("clients of %s: %v", p.Address, p.Sources)
		}
	}
	if after := groups(); fmt.Sprint(after[:5]) != fmt.Sprint(before) || after[5] == after[6] {
		t.Errorf("groups %v, before %v", after, before)
	}
	n.cache.outside = false
	n.wantServed("pods 10.96.0.7:80 6: "+both, "pods 198.51.100.1:80 6: "+both, "pods 203.0.113.1:80 6: "+both)
	n.cache.outside = true
	n.cache.setStandInAddresses(nil)
	n.wantServed(elsewhere...)
	n.cache.setStandInAddresses([]netip.Addr{vip})
	n.del(mastercfg.K8sServiceKey("default", "shop", "web"))
	if in := n.cache.hostAccess().Entrances; len(in.Balanced)+len(in.StandIns.Balancers())+len(n.cache.standIns.balanced) > 0 {
		t.Errorf("the service is gone, and the host leads %+v", in)
	}
}

// A UDP node port has an address of its own, in no pod's range, as later fragments do not contain their port; TCP
// node ports share one.
func TestANodePortOfUDPHasAnAddressOfItsOwn(t *testing.T) {
	n := kubeNode(t).backend("dns", "10.1.0.2:8080", "node1")
	s := mastercfg.K8sService{Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, ExternalLocal: true,
		Ports: []mastercfg.K8sServicePort{{Name: "dns", Protocol: "UDP", Port: 53, NodePort: 30053}, {Name: "dns", Protocol: "TCP", Port: 53, NodePort: 30053}}}
	n.kubeService(s).step()
	at, alone := n.cache.hostAccess().StandIns.NodePort(netip.MustParsePrefix("172.19.0.0/16"), openflow.ProtoUDP, 30053)
	const by = "[10.1.0.2:8080]"
	n.wantServed("pods 10.96.0.7:53 17: "+by, fmt.Sprintf("host %s:30053 17: %s", at, by), fmt.Sprintf("outside %s:30053 17: %s", at, by),
		"pods 10.96.0.7:53 6: "+by, "all 172.19.255.253:30053 6: "+by, "outside 172.19.255.253:30053 6: "+by)
	if !alone {
		t.Errorf("it is at %s", at)
	}
	o, _ := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb})
	for _, p := range o.(pipeline.Service).Ports[1:] {
		if shared := p.Protocol == openflow.ProtoTCP; p.Port == 30053 && p.Shared != shared {
			t.Errorf("%s is shared: %v", p.Address, p.Shared)
		}
	}
	s.Ports = s.Ports[1:]
	n.kubeService(s).step()
	if len(n.cache.standIns.udp) > 0 {
		t.Errorf("node ports of UDP: %v", n.cache.standIns.udp)
	}
}

// A load balancer without addresses of its own gives a service those of nodes. Pods reach its ports there, and on
// the node with the address hosts do, too; at all its addresses the node keeps its own ports: those that it needs
// itself, node ports of any service, and health ports.
func TestAtTheAddressOfANodeAServiceHasItsPortsAlone(t *testing.T) {
	addr := netip.MustParseAddr
	n := kubeNode(t).backend("http", "10.1.0.2:8080", "node1").backend("http", "10.1.0.3:8080", "node2").backend("kubelet", "10.1.0.2:8080", "node1").backend("high", "10.1.0.2:8080", "node1")
	n.cache.needed = func(protocol uint8, port uint16) bool { return protocol == openflow.ProtoTCP && port == 10250 }
	own, other := addr("192.0.2.1"), addr("192.0.2.2")
	n.cache.setStandInAddresses([]netip.Addr{own})
	s := mastercfg.K8sService{Addresses: []netip.Addr{addr("10.96.0.7")}, AtNodes: []netip.Addr{own, other}, ExternalLocal: true, SourceRanges: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Ports: []mastercfg.K8sServicePort{{Name: "http", Protocol: "TCP", Port: 80}, {Name: "kubelet", Protocol: "TCP", Port: 10250}, {Name: "high", Protocol: "TCP", Port: 30080}}}
	n.kubeService(s).step()
	at, has := n.cache.hostAccess().StandIns.Balancer(netip.MustParsePrefix("172.19.0.0/16"), own)
	const both, one = "[10.1.0.2:8080 10.1.0.3:8080]", "[10.1.0.2:8080]"
	cluster := []string{"pods 10.96.0.7:80 6: " + both, "pods 10.96.0.7:10250 6: " + one, "pods 10.96.0.7:30080 6: " + one, "pods 192.0.2.1:80 6: " + both, "pods 192.0.2.2:80 6: " + both}
	here := []string{fmt.Sprintf("host %s:80 6: %s", at, both), fmt.Sprintf("outside %s:80 6: %s", at, one)}
	high := []string{"pods 192.0.2.1:30080 6: " + one, "pods 192.0.2.2:30080 6: " + one}
	hereHigh := []string{fmt.Sprintf("host %s:30080 6: %s", at, one), fmt.Sprintf("outside %s:30080 6: %s", at, one)}
	served := func(balanced string, want ...[]string) {
		t.Helper()
		n.wantServed(slices.Concat(want...)...)
		if in := n.cache.hostAccess().Entrances; fmt.Sprint(in.Balanced) != balanced || len(in.Addresses) > 0 {
			t.Errorf("the host leads %+v, want %s", in, balanced)
		}
	}
	if !has {
		t.Fatal("nothing stands in for the address")
	}
	const all, some = "[{192.0.2.1 {6 80}} {192.0.2.1 {6 30080}}]", "[{192.0.2.1 {6 80}}]"
	served(all, cluster, high, here, hereHigh)
	o, _ := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb})
	groups := map[uint32]bool{}
	for i, p := range o.(pipeline.Service).Ports {
		groups[p.Group] = true
		if p.Machine != (i >= 3 && i < 7) || (i >= 3) != (fmt.Sprint(p.Sources) == "[192.0.2.0/24]") {
			t.Errorf("%s is of a machine: %v; clients: %v", netip.AddrPortFrom(p.Address, p.Port), p.Machine, p.Sources)
		}
	}
	if len(groups) != len(o.(pipeline.Service).Ports) {
		t.Errorf("groups %v", groups)
	}

	looked := func(by string) {
		t.Helper()
		if _, marked := n.cache.dirty[pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb}]; !marked || !n.cache.hostDirty {
			t.Errorf("%s: nobody looks at the service, or at the host", by)
		}
	}
	stall := mastercfg.K8sService{Namespace: "shop", Name: "stall", Addresses: []netip.Addr{addr("10.96.0.8")}, Ports: []mastercfg.K8sServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080}}}
	record := func(s mastercfg.K8sService) string { value, _ := json.Marshal(s); return string(value) }
	for by, s := range map[string]mastercfg.K8sService{"a node port": stall,
		"a port that is asked about": {Namespace: "shop", Name: "stall", Addresses: stall.Addresses, HealthPort: 30080}} {
		n.step()
		n.put(mastercfg.K8sServiceKey("default", "shop", "stall"), record(s))
		looked(by)
		served(some, cluster, here)
		n.del(mastercfg.K8sServiceKey("default", "shop", "stall"))
		looked(by + " goes")
		served(all, cluster, high, here, hereHigh)
	}

	// A process of the node itself is a backend of the service at that address and port.
	n.step()
	n.cache.hostDirty = false
	n.backend("http", "192.0.2.1:80", "node1")
	looked("a process at the address")
	if in := n.cache.hostAccess().Entrances; fmt.Sprint(in.Balanced) != "[{192.0.2.1 {6 30080}}]" {
		t.Errorf("a process of the node serves there, and the host leads %+v", in)
	}
	n.step()
	n.cache.hostDirty = false
	n.del(mastercfg.K8sBackendKey("default", "shop", "web", "http", netip.MustParseAddrPort("192.0.2.1:80")))
	looked("the process has gone")
	served(all, cluster, high, here, hereHigh)

	s.Guest = true // of another tenant than the one that hosts reach
	n.kubeService(s)
	served("[]", cluster, high)
	n.del(mastercfg.K8sServiceKey("default", "shop", "web"))
	if k := n.cache.kube; len(k.atNodes)+len(k.healthPortsAt)+len(n.cache.hostAccess().Balanced) > 0 {
		t.Errorf("the service is gone, and known are %v and %v", k.atNodes, k.healthPortsAt)
	}
}
