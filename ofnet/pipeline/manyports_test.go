package pipeline

import (
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// manyPorts returns a service of n ports at each of some addresses, with other providers for external clients.
func manyPorts(n int) Service {
	o := Service{ID: "k8s/blue/shop/many", VRF: blueVRF, Tag: webBlue.Tag, Inner: wayOut.Prefixes()}
	for i := range n {
		port := ServicePort{Port: uint16(1 + i), Protocol: openflow.ProtoTCP}
		if i%2 == 1 {
			port.Protocol = openflow.ProtoUDP
		}
		for a := range byte(4) {
			port.Address = netip.AddrFrom4([4]byte{203, 0, 113, 1 + a})
			port.From, port.Serving = FromPods|FromHost, []netip.AddrPort{netip.AddrPortFrom(web1.IPv4, port.Port), netip.AddrPortFrom(web2.IPv4, port.Port)}
			outer := port
			outer.From, outer.Serving = FromOutside, port.Serving[:1]
			o.Ports = append(o.Ports, port, outer)
		}
	}
	return o
}

// The cost of a service is proportional to its number of ports; comparing each port with each would cost its
// square.
func TestAServiceCostsAsMuchAsItHasPorts(t *testing.T) {
	const few, times, turns = 16, 24, 3
	p := New(Config{TunnelPort: 1, LocalVTEP: vtep1})
	flows := func(o Service) {
		wants, err := p.For(o, 0)
		if err != nil {
			t.Error(err)
		}
		taken(t, wants)
	}
	bridged := func(o Service) Service {
		o.Mode, o.Providers = BridgedProxy, []netip.Addr{web1.IPv4, web2.IPv4}
		for i := range o.Ports {
			o.Ports[i].Target, o.Ports[i].Serving = o.Ports[i].Port, nil
		}
		return o
	}
	for _, c := range []struct {
		what string
		make func(Service) Service
		do   func(Service)
	}{
		{"numbers of groups", func(o Service) Service { return o }, func(o Service) { o.Numbered(noneTaken) }},
		{"flows", func(o Service) Service { return o.Numbered(noneTaken) }, flows},
		{"flows with affinity", func(o Service) Service { o.Affinity = 600; return o.Numbered(noneTaken) }, flows},
		{"flows of a bridged network", func(o Service) Service { return bridged(o).Numbered(noneTaken) }, flows},
	} {
		small, large := c.make(manyPorts(few)), c.make(manyPorts(times*few))
		took := testkit.Least(t, turns, func() { c.do(small) }, func() { c.do(large) })
		if took[1] > 4*times*took[0] {
			t.Errorf("%s: %v for %d ports, %v for %d", c.what, took[0], few, took[1], times*few)
		}
	}
}
