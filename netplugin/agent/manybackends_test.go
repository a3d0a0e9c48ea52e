package agent

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// The backends of a port are chosen once, however many addresses the service has. The test compares the shortest
// of many times, measured in turns: other work on the machine does not lengthen all of them.
func TestBackendsAreChosenOnceForAllAddresses(t *testing.T) {
	const backends, addresses, turns = 4000, 60, 10
	chosenFor := func(addresses byte) func() {
		n := kubeNode(t)
		for i := range backends {
			n.backend("http", fmt.Sprintf("10.1.%d.%d:8080", 1+i/250, 1+i%250), "node2")
		}
		s := mastercfg.K8sService{Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, Ports: []mastercfg.K8sServicePort{{Name: "http", Protocol: "TCP", Port: 80}}}
		for a := range addresses {
			s.External = append(s.External, netip.AddrFrom4([4]byte{203, 0, 113, 1 + a}))
		}
		n.kubeService(s).step()
		return func() {
			o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb})
			if err != nil || len(o.(pipeline.Service).Ports) != int(addresses)+1 {
				t.Fatal(o, err)
			}
		}
	}
	if took := testkit.Least(t, turns, chosenFor(1), chosenFor(addresses)); took[1] > 4*took[0] {
		t.Errorf("%v with an external address, %v with %d", took[0], took[1], addresses)
	}
}

// A switch has a bucket for each backend of each port at each address. Of a service with very many, a node uses
// only some backends of each port.
func TestANodeUsesFewerBackendsOfAServiceWithManyPorts(t *testing.T) {
	const backends = 60
	n := kubeNode(t)
	s := mastercfg.K8sService{Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}}
	for i := range backends {
		n.backend("p0", fmt.Sprintf("10.1.1.%d:8080", 1+i), "node2")
	}
	wantServing := func(ports, want int) {
		t.Helper()
		for i := len(s.Ports); i < ports; i++ {
			s.Ports = append(s.Ports, mastercfg.K8sServicePort{Name: fmt.Sprint("p", i), Protocol: "TCP", Port: uint16(1 + i)})
		}
		n.kubeService(s).step()
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(o.(pipeline.Service).Ports[0].Serving); got != want {
			t.Errorf("%d ports at %d addresses: %d backends serve the first, want %d", ports, 1+len(s.External), got, want)
		}
	}
	wantServing(1000, 60)
	for a := range byte(3) {
		s.External = append(s.External, netip.AddrFrom4([4]byte{203, 0, 113, 1 + a}))
	}
	wantServing(1000, 100_000/4000)
	wantServing(2500, 100_000/10_000)
}
